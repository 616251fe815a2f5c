package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/progress"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/workload/cleanup"
)

func cleanclusterCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "cleancluster",
		Usage: "remove everything that runsim made, and nothing else",
		Description: "It finds deployments, replica sets and pods in every namespace by the labels that runsim gives them.\n" +
			"It removes a namespace only if runsim made it and nothing else is in it. It asks first unless every\n" +
			"node of the cluster is simulated (has kwok's annotation).\n\n" +
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
			&ucli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask, even on a cluster that is not simulated"},
			&ucli.DurationFlag{Name: "timeout", Value: 5 * time.Minute, Usage: "give up if nothing was removed for this `TIME`"},
		), cli.LogFlags()...),
		Action: func(c *ucli.Context) error { return clusterError(cleanCluster(c)) },
	}
}

func cleanCluster(c *ucli.Context) error {
	if c.NArg() > 0 {
		return exit.New(exit.Usage, fmt.Errorf("unexpected argument %q", c.Args().First()), "cleancluster takes flags only; --run chooses one run")
	}
	r := &removal{
		scope: cleanup.Scope{Run: c.String("run"), Namespace: c.String("namespace")}, dryRun: c.Bool("dry-run"), yes: c.Bool("yes"),
		format: c.String("output"), timeout: c.Duration("timeout"),
		in: c.App.Reader, out: c.App.Writer, err: c.App.ErrWriter, interactive: cli.IsTerminal(os.Stdin), terminal: progress.OnTerminal(),
	}
	if err := r.validate(); err != nil {
		return err
	}
	var closer io.Closer
	var err error
	if r.log, closer, err = cli.Log(c, "cleancluster", progress.OnTerminal()); err != nil {
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
	cleaner     *cleanup.Client
	scope       cleanup.Scope
	host        string // of the API server, for the question
	dryRun, yes bool
	format      string
	timeout     time.Duration
	interactive bool // stdin is a terminal, so that a person can answer a question
	terminal    bool // draw progress in place
	in          io.Reader
	out, err    io.Writer
	log         zerolog.Logger
}

func (r *removal) validate() error {
	if err := r.scope.Validate(); err != nil {
		return exit.New(exit.Usage, err, "")
	}
	if !slices.Contains(cleanup.Formats, r.format) {
		return exit.New(exit.Usage, fmt.Errorf("output format %q is not known", r.format), "use table, name or json")
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
	if !nodes.Simulated() && !r.yes {
		if err := r.confirm(found, nodes); err != nil {
			return err
		}
	}
	r.cleaner.Force = nodes.Simulated()
	start := time.Now()
	view := progress.New(r.err, r.terminal, r.log)
	found.Namespaces, err = removeAll(ctx, r.cleaner, r.scope, patience{r.timeout, "--timeout"}, view)
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

// confirm asks a person before it lets a real cluster be changed.
func (r *removal) confirm(found cleanup.Inventory, nodes cleanup.NodeCounts) error {
	reason := fmt.Sprintf("the cluster at %s is not simulated: %d of its %d nodes are real", r.host, nodes.Real, nodes.Total)
	if nodes.Total == 0 {
		reason = fmt.Sprintf("the cluster at %s has no nodes, so it may be a real one", r.host)
	}
	if !r.interactive {
		return exit.New(exit.Usage, errors.New(reason+"; stdin is not a terminal, so nobody can confirm"), "look with --dry-run, then confirm with --yes")
	}
	fmt.Fprintf(r.err, "%s.\nRemove %v from it? [y/N] ", strings.ToUpper(reason[:1])+reason[1:], found)
	answer, err := bufio.NewReader(r.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("not confirmed: nothing was removed")
}

// reportKept says why namespaces that runs made stay.
func (r *removal) reportKept(namespaces []cleanup.Namespace) {
	for _, n := range namespaces {
		if n.Keep != "" {
			fmt.Fprintf(r.err, "namespace %s is kept: %s\n", n.Name, n.Keep)
		}
	}
}

// patience is how long a removal may go on without removing anything.
type patience struct {
	limit time.Duration
	name  string // of the limit, for the error
}

// removeAll removes the scope and shows how far it is. It takes as long as that takes, but gives
// up when nothing was removed for the limit.
func removeAll(ctx context.Context, c *cleanup.Client, s cleanup.Scope, p patience, view *progress.Bar) ([]cleanup.Namespace, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(p.limit, func() { cancel(fmt.Errorf("nothing was removed for %s %v", p.name, p.limit)) })
	defer idle.Stop()
	var last cleanup.Progress
	return c.RemoveAll(ctx, s, func(now cleanup.Progress) {
		if now.Left.Total() < last.Left.Total() || now.Namespaces != last.Namespaces {
			idle.Reset(p.limit)
		}
		last = now
		view.Show(now.Done, now.Phase(), now.String())
	})
}
