package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
	"gnnsched/workload/cleanup"
)

func cleanclusterCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "cleancluster",
		Usage: "remove everything that runsim made, and nothing else",
		Description: "It finds deployments, replica sets, pods and resource claims in every namespace, and priority classes, " +
			"by the labels that runsim gives them.\nIt removes a namespace only if runsim made it and nothing else is in it. " +
			"It asks first unless every\nnode of the cluster is simulated (has kwok's annotation).\n\n" +
			"Examples:\n" +
			"   cleancluster                          # all runs\n" +
			"   cleancluster --dry-run                # list, and remove nothing\n" +
			"   cleancluster --run 20251120-104455-ab12\n" +
			"   cleancluster --context staging --yes  # a real cluster, from a script",
		Flags: append(append(cli.ClusterFlags(),
			&ucli.StringFlag{Name: "run", Usage: "remove only what the run with this `ID` made"},
			&ucli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Usage: "remove only from `NAMESPACE`"},
			&ucli.BoolFlag{Name: "dry-run", Usage: "list what would be removed, and remove nothing"},
			&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "with --dry-run, list as `FORMAT`: table, name or json"},
			yesFlag(),
			&ucli.DurationFlag{Name: "timeout", Value: 5 * time.Minute, Usage: "give up if nothing was removed for this `TIME`"},
		), cli.LogFlags()...),
		Action: func(c *ucli.Context) error { return kubeconfig.Explain(cleanCluster(c)) },
	}
}

func cleanCluster(c *ucli.Context) error {
	if c.NArg() > 0 {
		return exit.New(exit.Usage, fmt.Errorf("unexpected argument %q", c.Args().First()),
			"cleancluster takes flags only; --run chooses one run")
	}
	format, err := cli.Format(c, cleanup.Formats)
	if err != nil {
		return err
	}
	r := &removal{
		approval: approvalFor(c), scope: cleanup.Scope{Run: c.String("run"), Namespace: c.String("namespace")}, dryRun: c.Bool("dry-run"),
		format: format, timeout: c.Duration("timeout"),
		out: c.App.Writer, err: c.App.ErrWriter, terminal: cli.OnTerminal(),
	}
	if err := r.validate(); err != nil {
		return err
	}
	var closer io.Closer
	if r.log, closer, err = cli.Log(c, "cleancluster", cli.OnTerminal()); err != nil {
		return err
	}
	defer closer.Close()
	_, rest, err := cli.Target(c).Connect(c.Context)
	if err != nil {
		return err
	}
	r.host = rest.Host
	if r.cleaner, err = cleanup.New(rest); err != nil {
		return err
	}
	return r.run(c.Context)
}

// removal is one call of cleancluster.
type removal struct {
	approval
	cleaner  *cleanup.Client
	scope    cleanup.Scope
	dryRun   bool
	format   string
	timeout  time.Duration
	terminal bool // draw progress in place
	out, err io.Writer
	log      zerolog.Logger
}

func (r *removal) validate() error {
	if err := r.scope.Validate(); err != nil {
		return exit.New(exit.Usage, err, "")
	}
	if r.timeout <= 0 {
		return exit.Usagef("timeout %v must be positive", r.timeout)
	}
	return nil
}

func (r *removal) run(ctx context.Context) error {
	nodes, err := r.cleaner.Nodes(ctx)
	if err != nil {
		return err
	}
	found, err := r.cleaner.Inventory(ctx, r.scope)
	if err != nil {
		return err
	}
	if r.dryRun {
		return r.list(found)
	}
	if found.Empty() {
		fmt.Fprintln(r.out, "nothing to remove")
		r.reportKept(found.Namespaces)
		return nil
	}
	if err := r.ask(nodes, fmt.Sprintf("Remove %v from it?", found)); err != nil {
		return err
	}
	r.cleaner.Force = nodes.Simulated()
	start := time.Now()
	view := cli.NewBar(r.err, r.terminal, r.log)
	found.Namespaces, err = removeAll(ctx, r.cleaner, r.scope, r.timeout, view)
	view.Close()
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "removed %v in %s\n", found, time.Since(start).Round(100*time.Millisecond))
	r.reportKept(found.Namespaces)
	return nil
}

// list is the dry run.
func (r *removal) list(found cleanup.Inventory) error {
	if err := found.Write(r.out, r.format); err != nil {
		return err
	}
	if r.format == "table" {
		r.reportKept(found.Namespaces)
	}
	return nil
}

// reportKept reports why namespaces of the runs stay.
func (r *removal) reportKept(namespaces []cleanup.Namespace) {
	for _, n := range namespaces {
		if n.Keep != "" {
			fmt.Fprintf(r.err, "namespace %s is kept: %s\n", n.Name, n.Keep)
		}
	}
}

// removeAll removes the scope and shows its progress. It gives up when nothing was removed for the limit.
func removeAll(ctx context.Context, c *cleanup.Client, s cleanup.Scope, limit time.Duration, view *cli.Bar) ([]cleanup.Namespace, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(limit, func() { cancel(fmt.Errorf("nothing was removed for --timeout %v", limit)) })
	defer idle.Stop()
	var last cleanup.Progress
	return c.RemoveAll(ctx, s, func(now cleanup.Progress) {
		if now.Left.Total() < last.Left.Total() || now.Namespaces != last.Namespaces {
			idle.Reset(limit)
		}
		last = now
		view.Show(now.Done, now.Phase(), now.String())
	})
}

// approval asks a person before a command changes a cluster that is not simulated.
type approval struct {
	host        string // of the API server, for the question
	look        string // how to see what would be done, such as "with --dry-run"
	yes         bool   // approved in advance
	interactive bool   // stdin is a terminal, so that a person can answer
	in          io.Reader
	question    io.Writer
}

// yesFlag is the flag --yes, which approvalFor reads.
func yesFlag() ucli.Flag {
	return &ucli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask, even on a cluster that is not simulated"}
}

func approvalFor(c *ucli.Context) approval {
	return approval{look: "with --dry-run", yes: c.Bool("yes"),
		interactive: cli.IsTerminal(os.Stdin), in: c.App.Reader, question: c.App.ErrWriter}
}

// ask returns nil if the nodes are simulated or the user approves. intent is a question such as "Remove 3 pods from it?". The error has the
// exit code exit.Declined if the user refuses, and exit.Usage if there is no terminal to ask on. The caller must not have changed anything
// before.
func (a approval) ask(nodes cleanup.NodeCounts, intent string) error {
	if nodes.Simulated() || a.yes {
		return nil
	}
	reason := fmt.Sprintf("the cluster at %s is not simulated: %d of its %d nodes are real", a.host, nodes.Real, nodes.Total)
	if nodes.Total == 0 {
		reason = fmt.Sprintf("the cluster at %s has no nodes, so it may be a real one", a.host)
	}
	if !a.interactive {
		return exit.New(exit.Usage, errors.New(reason+"; stdin is not a terminal, so nobody can confirm"),
			"look "+a.look+", then confirm with --yes")
	}
	fmt.Fprintf(a.question, "%s.\n%s [y/N] ", strings.ToUpper(reason[:1])+reason[1:], intent)
	answer, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return exit.New(exit.Declined, errors.New("not confirmed: nothing was changed"),
		"only y or yes confirms; the command "+a.look+" shows what would be done")
}
