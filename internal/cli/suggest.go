package cli

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"

	"gnnsched/internal/choice"
	"gnnsched/internal/exit"
)

var unknownFlag = regexp.MustCompile(`^flag provided but not defined: -+(.+)$`)

// usageError returns the error for wrong flags of a command. Its hint names the command's help and, if a
// flag looks like a misspelt one, that flag.
func usageError(c *cli.Context, err error, _ bool) error {
	name, flags := c.App.HelpName, c.App.Flags
	if c.Command != nil && c.Command.HelpName != "" {
		name, flags = c.Command.HelpName, c.Command.Flags
	}
	hint := "see `" + strings.TrimSpace(name) + " --help`"
	if wrong := unknownFlag.FindStringSubmatch(err.Error()); wrong != nil {
		if right := choice.Closest(wrong[1], flagNames(flags)); right != "" {
			hint = "did you mean --" + right + "? " + hint
		}
	}
	return exit.New(exit.Usage, err, hint)
}

// flagNames returns the long names of flags, "help" and "help-all".
func flagNames(flags []cli.Flag) []string {
	names := []string{"help", helpAll}
	for _, f := range flags {
		for _, n := range f.Names() {
			if len(n) > 1 {
				names = append(names, n)
			}
		}
	}
	return names
}

// UnknownCommand returns the error for an unknown command. path is the text typed before it. If a known command is similar, the hint names
// it.
func UnknownCommand(path, name string, known []*cli.Command) error {
	var names []string
	for _, c := range known {
		names = append(names, c.Names()...)
	}
	hint := "see `" + path + " --help`"
	if right := choice.Closest(name, names); right != "" {
		hint = "did you mean `" + path + " " + right + "`? " + hint
	}
	return exit.New(exit.Usage, fmt.Errorf("there is no command %q", name), hint)
}
