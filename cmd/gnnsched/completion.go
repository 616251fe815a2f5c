package main

import (
	"fmt"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
)

// The scripts ask the program itself for the words that fit. The program prints them in the form for
// the shell in $SHELL. %s stands for the names of the programs.
const (
	bashCompletion = `_gnnsched() {
  local cur="${COMP_WORDS[COMP_CWORD]}"
  local words=("${COMP_WORDS[@]:0:COMP_CWORD}")
  [[ "$cur" == -* ]] && words+=("$cur")
  COMPREPLY=($(compgen -W "$(SHELL=bash "${words[@]}" --generate-bash-completion 2>/dev/null)" -- "$cur"))
}
complete -o bashdefault -o default -F _gnnsched %s
`
	zshCompletion = `#compdef %[1]s
_gnnsched() {
  local cur=${words[-1]}
  local -a asked=("${words[@]:0:#words[@]-1}") found
  [[ "$cur" == -* ]] && asked+=("$cur")
  found=("${(@f)$(SHELL=zsh "${asked[@]}" --generate-bash-completion 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then _describe 'values' found; else _files; fi
}
compdef _gnnsched %[1]s
`
)

func completionCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "completion",
		Usage:     "print a script that completes commands and flags in bash, zsh or fish",
		ArgsUsage: "bash|zsh|fish",
		Description: "Examples:\n" +
			"   source <(gnnsched completion bash)                                      # or in ~/.bashrc\n" +
			"   source <(gnnsched completion zsh)                                       # or in ~/.zshrc, after compinit\n" +
			"   gnnsched completion fish > ~/.config/fish/completions/gnnsched.fish",
		Action: func(c *ucli.Context) error {
			script, err := completion(c.Args().Slice())
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(c.App.Writer, script)
			return err
		},
	}
}

// completion returns the script for a shell.
func completion(args []string) (string, error) {
	if len(args) != 1 {
		return "", exit.New(exit.Usage, fmt.Errorf("%d arguments, want the name of a shell", len(args)), "choose bash, zsh or fish")
	}
	names := []string{"gnnsched", "rungnn", "rundqn", "runacgnn", "runacdqn", "runsim", "cleancluster", "ktop"}
	switch args[0] {
	case "bash":
		return fmt.Sprintf(bashCompletion, strings.Join(append(names, "kwokcluster"), " ")), nil
	case "zsh":
		return fmt.Sprintf(zshCompletion, strings.Join(append(names, "kwokcluster"), " ")), nil
	case "fish":
		var out strings.Builder
		for _, name := range names {
			a := app(name)
			a.Setup()
			script, err := a.ToFishCompletion()
			if err != nil {
				return "", fmt.Errorf("completion for %s: %w", name, err)
			}
			out.WriteString(script)
		}
		return out.String(), nil
	}
	return "", exit.New(exit.Usage, fmt.Errorf("no completion for the shell %q", args[0]), "choose bash, zsh or fish")
}
