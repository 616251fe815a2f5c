package cli

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// flagsFirst returns args with the named command's flags moved before its other arguments, so that `gnnsched compare prod.record --profile
// acgnn` works as in kubectl. Go's flag package stops at the first argument that is no flag. Arguments after "--" stay behind it.
func flagsFirst(app *cli.App, args []string) []string {
	if len(args) == 0 || args[len(args)-1] == "--generate-bash-completion" {
		return args // the word to complete is the last but one
	}
	flags, commands, start := app.Flags, app.Commands, 1
	for start < len(args) {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[start]) })
		if i < 0 {
			break
		}
		flags, commands = commands[i].Flags, commands[i].Subcommands
		start++
	}
	if len(commands) > 0 {
		return args // a subcommand may follow, whose flags are others
	}
	first, others := slices.Clone(args[:start]), []string(nil)
	for i := start; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--":
			return append(append(append(first, "--"), others...), args[i+1:]...)
		case len(a) < 2 || a[0] != '-':
			others = append(others, a)
		default:
			first = append(first, a)
			if takesNext(flags, a) && i+1 < len(args) {
				i++
				first = append(first, args[i])
			}
		}
	}
	return append(first, others...)
}

// takesNext reports whether the flag in arg, such as --name or -n, has its value in the next argument.
func takesNext(flags []cli.Flag, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			v, ok := f.(cli.DocGenerationFlag)
			return ok && v.TakesValue()
		}
	}
	return false
}
