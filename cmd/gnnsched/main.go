// Command gnnsched is the scheduler with its tools, each as a subcommand. Called through a link
// named rungnn, rundqn, runacgnn, runacdqn, runsim, cleancluster or ktop, it runs that subcommand.
package main

import (
	"os"
	"path/filepath"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/compare"
	"gnnsched/cmd/internal/convert"
	"gnnsched/cmd/internal/deploy"
	"gnnsched/cmd/internal/doctor"
	"gnnsched/cmd/internal/explain"
	"gnnsched/cmd/internal/man"
	"gnnsched/cmd/internal/plan"
	"gnnsched/cmd/internal/record"
	"gnnsched/cmd/internal/report"
	"gnnsched/cmd/internal/serve"
	"gnnsched/cmd/internal/shadow"
	"gnnsched/internal/cli"
)

// version is set by the linker.
var version = "dev"

func main() {
	os.Exit(cli.Run(app(filepath.Base(os.Args[0])), os.Args))
}

// commands lists the subcommands in the order of the help.
func commands() []*ucli.Command {
	return append(runCommands(),
		ktopCommand(), runsimCommand(), cleanclusterCommand(), evalCommand(), tuneCommand(), compare.Command(), convert.Command(), explain.Command(), plan.Command(), record.Command(), report.Command(), demoCommand(), serve.Command(), shadow.Command(), deploy.Command(), man.Command("gnnsched", version, commands), doctor.Command(), soakCommand(), healthcheckCommand(), completionCommand())
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
