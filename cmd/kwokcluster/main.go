// Command kwokcluster runs a simulated Kubernetes cluster: a whole control plane in one process,
// with nodes that do not exist. It is the command line of package kwok.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/rest"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
	"gnnsched/internal/table"
	"gnnsched/kwok"
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
		Commands: []*ucli.Command{upCommand(args), downCommand(), statusCommand(), cli.Manual()},
		Action: func(c *ucli.Context) error {
			if c.Args().Present() {
				return cli.UnknownCommand("kwokcluster", c.Args().First(), c.App.Commands)
			}
			return ucli.ShowAppHelp(c)
		},
	}
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

func statusCommand() *ucli.Command {
	return &ucli.Command{
		Name: "status", Usage: "show the cluster's state; exit 0 if it is ready, 3 if not",
		Description: "Examples:\n   kwokcluster status\n   kwokcluster status -o json | jq .nodes",
		Flags: []ucli.Flag{
			dirFlag(),
			&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "output `FORMAT`: table or json"},
		},
		Before: noArguments,
		Action: status,
	}
}

func status(c *ucli.Context) error {
	format, err := cli.Format(c, []string{"table", "json"})
	if err != nil {
		return err
	}
	s, err := kwok.Inspect(c.Context, dir(c))
	if err != nil {
		return err
	}
	if format == "json" {
		err = cli.JSON(cli.Aside(c), s)
	} else {
		err = printState(cli.Aside(c), s, time.Now())
	}
	if err != nil {
		return fmt.Errorf("print the state: %w", err)
	}
	return notReady(s)
}

// notReady returns nil for a cluster that is ready, else an error with exit code 3.
func notReady(s kwok.State) error {
	unreachable := func(hint, format string, a ...any) error {
		return exit.New(exit.Unreachable, fmt.Errorf(format, a...), hint)
	}
	in := exit.ShellLine(s.Dir)
	switch s.Phase {
	case kwok.Ready:
		return nil
	case kwok.Absent:
		return unreachable("create one with `kwokcluster up --dir "+in+"`", "there is no cluster in %s", s.Dir)
	case kwok.Starting:
		return unreachable("try again in a few seconds", "the cluster is starting")
	case kwok.Unhealthy:
		return unreachable(fmt.Sprintf("see its log; `kwokcluster down --dir %[1]s` and `kwokcluster up --dir %[1]s` restart it", in), "the API server at %s does not answer: %s",
			s.Address, s.Reason)
	}
	return unreachable("start it with `kwokcluster up --dir "+in+"`", "the cluster is stopped")
}

// printState prints the known fields, one a line.
func printState(w io.Writer, s kwok.State, now time.Time) error {
	t := table.Of("STATE", string(s.Phase))
	row := func(name, value string) {
		if value != "" {
			t.Add(name, value)
		}
	}
	ago := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return duration.HumanDuration(now.Sub(at)) + " ago"
	}
	row("ADDRESS", s.Address)
	if s.Phase == kwok.Ready {
		row("NODES", fmt.Sprintf("%d of %d ready", s.Nodes.Ready, s.Nodes.Total))
	}
	row("VERSION", s.Version)
	if s.PID != 0 {
		row("PID", fmt.Sprint(s.PID))
	}
	row("STARTED", ago(s.StartedAt))
	row("CREATED", ago(s.CreatedAt))
	row("KUBECONFIG", s.Kubeconfig)
	row("DIR", s.Dir)
	return t.Columns(w)
}

func downCommand() *ucli.Command {
	return &ucli.Command{
		Name: "down", Usage: "stop the cluster; its data is kept unless --purge is given",
		Description: "If the cluster is not running, that is not an error.\n\nExamples:\n   " +
			"kwokcluster down\n   kwokcluster down --purge --dir ./experiment",
		Flags: []ucli.Flag{
			dirFlag(),
			&ucli.BoolFlag{Name: "purge", Usage: "delete the data too, but no files that kwokcluster did not make"},
			&ucli.DurationFlag{Name: "timeout", Value: 10 * time.Second, Usage: "kill the cluster after this `TIME`"},
		},
		Before: noArguments,
		Action: down,
	}
}

func down(c *ucli.Context) error {
	if c.Duration("timeout") <= 0 {
		return exit.Usagef("--timeout %v must be over 0", c.Duration("timeout"))
	}
	say := func(format string, a ...any) {
		fmt.Fprintf(c.App.ErrWriter, component+": "+format+"\n", a...)
	}
	d := dir(c)
	begin := time.Now()
	ran, err := kwok.Terminate(c.Context, d, c.Duration("timeout"))
	switch {
	case err != nil:
		return err
	case ran:
		say("stopped after %.1f s", time.Since(begin).Seconds())
	default:
		say("no cluster is running in %s", d)
	}
	if !c.Bool("purge") {
		return nil
	}
	_, err = os.Stat(d)
	there := err == nil
	left, err := kwok.Purge(d)
	switch {
	case err != nil:
		return err
	case len(left) > 0:
		say("deleted the cluster's data in %s; kept files that kwokcluster did not make: %s", d, strings.Join(left, ", "))
	case there:
		say("deleted %s", d)
	}
	return nil
}
