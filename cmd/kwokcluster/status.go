package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	ucli "github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/util/duration"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/kwok"
)

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
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, value)
		}
	}
	ago := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return duration.HumanDuration(now.Sub(at)) + " ago"
	}
	row("STATE", string(s.Phase))
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
	return t.Flush()
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
