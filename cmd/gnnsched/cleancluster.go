package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/workload/cleanup"
)

func cleanclusterCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "cleancluster",
		Usage: "remove what runsim made, and only that",
		Description: "Deployments, replica sets and pods go by the labels that runsim gives them, in every namespace. A\n" +
			"namespace goes if runsim made it and nobody else has anything in it. On a cluster that is not\n" +
			"simulated (a node lacks kwok's annotation) it asks first.\n\n" +
			"Examples:\n" +
			"   cleancluster                          # every run\n" +
			"   cleancluster --dry-run                # what would go\n" +
			"   cleancluster --run 20251120-104455-ab12\n" +
			"   cleancluster --context staging --yes  # a real cluster, from a script",
		Flags: append(append(cli.ClusterFlags(),
			&ucli.StringFlag{Name: "run", Usage: "only what the run with this `ID` made"},
			&ucli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Usage: "only what is in `NAMESPACE`"},
			&ucli.BoolFlag{Name: "dry-run", Usage: "list what would be removed, and remove nothing"},
			&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "list as `FORMAT`: table, name or json"},
			&ucli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask on a cluster that is not simulated"},
			&ucli.DurationFlag{Name: "timeout", Value: 5 * time.Minute, Usage: "give up waiting after a `TIME`"},
		), cli.LogFlags()...),
		Action: func(c *ucli.Context) error { return clusterError(cleanCluster(c)) },
	}
}

func cleanCluster(c *ucli.Context) error {
	if c.NArg() > 0 {
		return exit.New(exit.Usage, fmt.Errorf("unexpected argument %q", c.Args().First()), "cleancluster takes flags only; --run chooses one run")
	}
	e := &eraser{
		scope: cleanup.Scope{Run: c.String("run"), Namespace: c.String("namespace")}, dryRun: c.Bool("dry-run"), yes: c.Bool("yes"),
		format: c.String("output"), timeout: c.Duration("timeout"), in: c.App.Reader, interactive: cli.IsTerminal(os.Stdin), terminal: onTerminal(), out: c.App.Writer, err: c.App.ErrWriter,
	}
	if err := e.validate(); err != nil {
		return err
	}
	var err error
	var closer io.Closer
	if e.log, closer, err = cli.Log(c, "cleancluster", onTerminal()); err != nil {
		return err
	}
	defer closer.Close()
	_, rest, err := cli.Target(c).Connect(c.Context)
	if err != nil {
		return err
	}
	e.host = rest.Host
	if e.cleaner, err = cleanup.New(rest); err != nil {
		return err
	}
	return e.run(c.Context)
}

// eraser is one cleancluster.
type eraser struct {
	cleaner     *cleanup.Client
	scope       cleanup.Scope
	host        string // of the API server, for the question
	dryRun, yes bool
	format      string
	timeout     time.Duration
	interactive bool // somebody can answer a question
	terminal    bool // draw progress in place
	in          io.Reader
	out, err    io.Writer
	log         zerolog.Logger
}

func (e *eraser) validate() error {
	if err := e.scope.Validate(); err != nil {
		return exit.New(exit.Usage, err, "")
	}
	switch e.format {
	case "table", "name", "json":
	default:
		return exit.New(exit.Usage, fmt.Errorf("output format %q is not known", e.format), "use table, name or json")
	}
	if e.timeout <= 0 {
		return exit.Usagef("timeout %v must be over 0", e.timeout)
	}
	return nil
}

func (e *eraser) run(ctx context.Context) error {
	simulated, nodes, real, err := e.cleaner.Simulated(ctx)
	if err != nil {
		return err
	}
	found, err := e.cleaner.Find(ctx, e.scope)
	if err != nil {
		return err
	}
	spaces, err := e.cleaner.Namespaces(ctx, e.scope)
	if err != nil {
		return err
	}
	if e.dryRun {
		return e.list(found, spaces)
	}
	if len(found.Objects) == 0 && len(removable(spaces)) == 0 {
		fmt.Fprintln(e.out, "nothing to remove")
		e.sayKept(spaces)
		return nil
	}
	if !simulated && !e.yes {
		if err := e.ask(found, spaces, nodes, real); err != nil {
			return err
		}
	}
	e.cleaner.Force = simulated
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, e.timeout, fmt.Errorf("not done after --timeout %v", e.timeout))
	defer cancel()
	view := newProgressView(e.err, e.terminal, e.log)
	done := removeAll(ctx, e.cleaner, e.scope, view)
	view.close()
	if done.err != nil {
		return done.err
	}
	fmt.Fprintf(e.out, "removed %s in %s\n", amount(found.Counts(), len(removable(done.spaces))), short(time.Since(start)))
	e.sayKept(done.spaces)
	return nil
}

// removal is what came of removeAll.
type removal struct {
	spaces []cleanup.Namespace // those that runs made, with why some are kept
	err    error
}

// removeAll removes the scope's objects, then the namespaces that this leaves empty.
func removeAll(ctx context.Context, c *cleanup.Client, s cleanup.Scope, view *progressView) (r removal) {
	first := 0
	r.err = c.Remove(ctx, s, func(left cleanup.Counts) {
		first = max(first, left.Total())
		done := 1.0
		if first > 0 {
			done = 1 - float64(left.Total())/float64(first)
		}
		view.show(done, "removing", fmt.Sprintf("removing: %d objects left, %d of them pods", left.Total(), left.Pods))
	})
	if r.err != nil {
		return r
	}
	// Only now can be told what else is in them: a person may have added something.
	if r.spaces, r.err = c.Namespaces(ctx, s); r.err != nil {
		return r
	}
	if n := len(removable(r.spaces)); n > 0 {
		view.show(1, "namespaces", fmt.Sprintf("removing %d namespace(s)", n))
		r.err = c.RemoveNamespaces(ctx, r.spaces)
	}
	return r
}

// ask wants a yes before a real cluster is touched.
func (e *eraser) ask(found cleanup.Found, spaces []cleanup.Namespace, nodes, real int) error {
	what := fmt.Sprintf("the cluster at %s is not a simulated one (%d of its %d nodes are real)", e.host, real, nodes)
	if nodes == 0 {
		what = fmt.Sprintf("the cluster at %s has no nodes, so it cannot be told whether it is a simulated one", e.host)
	}
	if !e.interactive {
		return exit.New(exit.Usage, errors.New(what+", and nobody is there to confirm"), "look with --dry-run, then confirm with --yes")
	}
	fmt.Fprintf(e.err, "%s.\nRemove %s from it? [y/N] ", strings.ToUpper(what[:1])+what[1:], amount(found.Counts(), len(removable(spaces))))
	answer, err := bufio.NewReader(e.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("not confirmed: nothing was removed")
}

// list is the dry run.
func (e *eraser) list(found cleanup.Found, spaces []cleanup.Namespace) error {
	switch e.format {
	case "json":
		enc := json.NewEncoder(e.out)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			cleanup.Found
			Namespaces []cleanup.Namespace `json:"namespaces"`
		}{found, spaces})
	case "name":
		for _, o := range found.Objects {
			fmt.Fprintf(e.out, "%s/%s -n %s\n", o.Kind, o.Name, o.Namespace)
		}
		for _, n := range removable(spaces) {
			fmt.Fprintf(e.out, "namespaces/%s\n", n.Name)
		}
		return nil
	}
	if len(found.Objects) == 0 && len(removable(spaces)) == 0 {
		fmt.Fprintln(e.out, "nothing to remove")
		e.sayKept(spaces)
		return nil
	}
	t := tabwriter.NewWriter(e.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "NAMESPACE\tRUN\tDEPLOYMENTS\tREPLICASETS\tPODS")
	for _, g := range found.Groups() {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\n", g.Namespace, g.Run, g.Deployments, g.ReplicaSets, g.Pods)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range removable(spaces) {
		fmt.Fprintf(e.out, "namespace %s\n", n.Name)
	}
	e.sayKept(spaces)
	return nil
}

func (e *eraser) sayKept(spaces []cleanup.Namespace) {
	for _, n := range spaces {
		if n.Keep != "" {
			fmt.Fprintf(e.err, "namespace %s is kept: %s\n", n.Name, n.Keep)
		}
	}
}

func removable(spaces []cleanup.Namespace) []cleanup.Namespace {
	var out []cleanup.Namespace
	for _, n := range spaces {
		if n.Keep == "" {
			out = append(out, n)
		}
	}
	return out
}

// amount is "3 deployments, 3 replica sets, 21 pods and 1 namespace".
func amount(c cleanup.Counts, namespaces int) string {
	plural := func(n int, what string) string {
		if n == 1 {
			return "1 " + what
		}
		return fmt.Sprintf("%d %ss", n, what)
	}
	return fmt.Sprintf("%s, %s, %s and %s", plural(c.Deployments, "deployment"), plural(c.ReplicaSets, "replica set"), plural(c.Pods, "pod"), plural(namespaces, "namespace"))
}
