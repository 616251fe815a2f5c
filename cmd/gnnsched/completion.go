package main

import (
	"fmt"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
)

// The scripts ask the program itself for the words that fit. With an environment variable named 0 that
// ends in zsh, it adds a colon and a description to commands. %[1]s stands for the names of the programs.
const (
	bashCompletion = `_gnnsched() {
  local cur="${COMP_WORDS[COMP_CWORD]}"
  local words=("${COMP_WORDS[@]:0:COMP_CWORD}")
  [[ "$cur" == -* ]] && words+=("$cur")
  COMPREPLY=($(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "$cur"))
}
complete -o bashdefault -o default -F _gnnsched %[1]s
`
	zshCompletion = `#compdef %[1]s
_gnnsched() {
  local cur=${words[-1]}
  local -a asked=("${words[@]:0:#words[@]-1}") found
  [[ "$cur" == -* ]] && asked+=("$cur")
  found=("${(@f)$(env 0=zsh "${asked[@]}" --generate-bash-completion 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then _describe 'values' found; else _files; fi
}
compdef _gnnsched %[1]s
`
	fishCompletion = `function __gnnsched
  set -l asked (commandline -opc)
  set -l cur (commandline -ct)
  string match -q -- '-*' $cur; and set -a asked $cur
  env 0=zsh $asked --generate-bash-completion 2>/dev/null | string replace ':' \t
end
for name in %[1]s
  complete -c $name -a '(__gnnsched)'
end
`
)

// completed are the programs that the scripts are for.
const completed = "gnnsched rungnn rundqn runacgnn runacdqn runsim cleancluster ktop kwokcluster gnntrain"

func completionCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "completion",
		Usage:     "print a script that completes commands and flags of all programs in bash, zsh or fish",
		ArgsUsage: "bash|zsh|fish",
		Description: "Examples:\n" +
			"   source <(gnnsched completion bash)                                      # or in ~/.bashrc\n" +
			"   source <(gnnsched completion zsh)                                       # or in ~/.zshrc, after compinit\n" +
			"   gnnsched completion fish > ~/.config/fish/conf.d/gnnsched.fish",
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
	scripts := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
	script, known := scripts[args[0]]
	if !known {
		return "", exit.New(exit.Usage, fmt.Errorf("no completion for the shell %q", args[0]), "choose bash, zsh or fish")
	}
	return fmt.Sprintf(script, completed), nil
}
