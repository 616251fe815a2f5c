// Command gnnsched is the scheduler with its tools, each as a subcommand. Called through a link
// named rungnn, rundqn, runacgnn, runacdqn, runsim, cleancluster or ktop, it runs that subcommand.
package main

import (
	"os"
	"path/filepath"
	"slices"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/explain"
	"gnnsched/cmd/internal/record"
	"gnnsched/cmd/internal/serve"
	"gnnsched/cmd/internal/shadow"
	"gnnsched/internal/cli"
)

// version is set by the linker.
var version = "dev"

func main() {
	os.Exit(cli.Run(app(filepath.Base(os.Args[0])), os.Args))
}

// laboratory lists the commands for a person's own machine. It lists none in the image of the scheduler, which is built with the tag
// service.
var laboratory = func() []*ucli.Command { return nil }

// commands lists the subcommands in the order of the help.
func commands() []*ucli.Command {
	return slices.Concat(runCommands(),
		[]*ucli.Command{
			ktopCommand(), runsimCommand(), cleanclusterCommand(), explain.Command(), record.Command(), serve.Command(), shadow.Command(),
		},
		laboratory(), []*ucli.Command{healthcheckCommand(), completionCommand()})
}

// app returns the command line for the name under which the program was called.
func app(name string) *ucli.App {
	for _, c := range commands() {
		if c.Name == name {
			return &ucli.App{
				Name: c.Name, Usage: c.Usage, UsageText: c.UsageText, Description: c.Description, ArgsUsage: c.ArgsUsage,
				Flags: c.Flags, Action: c.Action, Version: cli.Versions(version), EnableBashCompletion: true, HideHelpCommand: true,
			}
		}
	}
	return &ucli.App{
		Name: "gnnsched", Usage: "a Kubernetes scheduler whose scoring is a graph neural network",
		Commands: commands(), Version: cli.Versions(version), EnableBashCompletion: true,
		Action: func(c *ucli.Context) error {
			if c.NArg() > 0 {
				return cli.UnknownCommand("gnnsched", c.Args().First(), c.App.Commands)
			}
			return ucli.ShowAppHelp(c)
		},
	}
}
