// Command kwokcluster runs a simulated Kubernetes cluster: a whole control plane in one process,
// with nodes that do not exist. It is the command line of package kwok.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	ucli "github.com/urfave/cli/v2"
	"k8s.io/client-go/rest"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
)

// version is set by the linker.
var version = "dev"

// gcPercent is higher than Go's default, because the API server allocates so fast that garbage collection would take a third of its time.
const gcPercent = 300

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	// The API server's deprecation warnings concern upstream components.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	os.Exit(cli.Run(app(os.Args), os.Args))
}

const examples = `kwokcluster up                            ten nodes and a control-plane node; Ctrl-C stops it
   eval "$(kwokcluster up --detach)"         start it in the background and point kubectl at it
   kwokcluster up --nodes 1000               start a larger cluster
   kwokcluster up --pools gpu-pools.yaml     take the nodes from a file (docs/reference/nodes.md)
   kwokcluster status                        exit 0 only if the cluster is ready
   kwokcluster down                          stop it and keep the data
   kwokcluster down --purge                  stop it and delete the data`

// app returns the command line. args are the process's arguments, which up --detach needs.
func app(args []string) *ucli.App {
	return &ucli.App{
		Name: "kwokcluster", Usage: "run a simulated Kubernetes cluster in one process",
		Description: "Runs etcd, kube-apiserver, kube-controller-manager and kwok, without containers. By default it\n" +
			"listens on the loopback interface only, with TLS and a token. It has no scheduler: rungnn starts one.\n\nExamples:\n   " + examples,
		Version: cli.Versions(version), EnableBashCompletion: true, DisableSliceFlagSeparator: true,
		Commands: append(commands(args), cli.Manual()),
		Action: func(c *ucli.Context) error {
			if c.Args().Present() {
				return cli.UnknownCommand("kwokcluster", c.Args().First(), c.App.Commands)
			}
			return ucli.ShowAppHelp(c)
		},
	}
}

// commands lists the commands that the help shows.
func commands(args []string) []*ucli.Command {
	return []*ucli.Command{upCommand(args), downCommand(), statusCommand()}
}

func dirFlag() ucli.Flag {
	return &ucli.StringFlag{
		Name: "dir", DefaultText: "~/.local/share/gnnsched/kwok, or gnnsched/kwok in $XDG_DATA_HOME", Usage: "data `DIR`ectory of the cluster",
	}
}

func dir(c *ucli.Context) string {
	if d := c.String("dir"); d != "" {
		return d
	}
	return kubeconfig.SimulatedDir()
}

// noArguments is the Before function of commands that take only flags.
func noArguments(c *ucli.Context) error {
	if c.Args().Present() {
		return exit.New(exit.Usage, fmt.Errorf("%s takes no arguments, got %q", c.Command.Name, c.Args().First()),
			"see `"+c.App.Name+" "+c.Command.Name+" --help`")
	}
	return nil
}
