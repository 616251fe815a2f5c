// Command kwokcluster runs the simulated cluster: a whole Kubernetes control plane in one
// process, with nodes that kwok plays. Package kwok does the work; this is its command line.
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

// gcPercent lets the heap grow further between collections than Go does by itself: the API
// server allocates so much that it otherwise spends a third of its time on collecting.
const gcPercent = 300

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	// Deprecation warnings of the API server to components that we do not write.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	os.Exit(cli.Run(app(os.Args), os.Args))
}

const examples = `kwokcluster up                            ten nodes and a control-plane node; Ctrl-C stops it
   eval "$(kwokcluster up --detach)"         start it in the background and point kubectl at it
   kwokcluster up --nodes 1000               a larger one
   kwokcluster up --pools gpu-pools.yaml     nodes as the file says (docs/cluster.md)
   kwokcluster status                        exit 0 only if it is ready
   kwokcluster down                          stop it and keep the data
   kwokcluster down --purge                  stop it and delete the data`

// app returns the command line. args are those of the process, which up --detach needs.
func app(args []string) *ucli.App {
	return &ucli.App{
		Name: "kwokcluster", Usage: "run a simulated Kubernetes cluster in one process",
		Description: "etcd, kube-apiserver, kube-controller-manager and kwok, without containers. It listens on the\n" +
			"loopback interface alone, with TLS and a token. There is no scheduler in it: rungnn starts one.\n\nEXAMPLES:\n   " + examples,
		Version: version, EnableBashCompletion: true, Suggest: true, DisableSliceFlagSeparator: true,
		Commands: []*ucli.Command{upCommand(args), downCommand(), statusCommand()},
		Action: func(c *ucli.Context) error {
			if c.Args().Present() {
				return exit.New(exit.Usage, fmt.Errorf("there is no command %q", c.Args().First()), "there are up, down and status; see `kwokcluster --help`")
			}
			return ucli.ShowAppHelp(c)
		},
	}
}

func dirFlag() ucli.Flag {
	return &ucli.StringFlag{Name: "dir", Usage: "`DIR`ectory of the cluster's data; default: " + kubeconfig.SimulatedDir()}
}

func dir(c *ucli.Context) string {
	if d := c.String("dir"); d != "" {
		return d
	}
	return kubeconfig.SimulatedDir()
}

// noArguments is the Before of a command that takes flags alone.
func noArguments(c *ucli.Context) error {
	if c.Args().Present() {
		return exit.New(exit.Usage, fmt.Errorf("%s takes no arguments, got %q", c.Command.Name, c.Args().First()), "see `"+c.App.Name+" "+c.Command.Name+" --help`")
	}
	return nil
}
