package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"
	"k8s.io/klog/v2"

	"gnnsched/cmd/internal/explain"
	"gnnsched/cmd/internal/top"
	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin/learningcurve"
	"gnnsched/scheduler/shadow"
)

const ktopExamples = `ktop                            the live view; ? shows the keys, q quits
   ktop --once                     print the table once
   ktop -o json | jq .totals       the data; docs/reference/ktop.md describes the schema
   ktop -w -o json --interval 10s  one JSON document every ten seconds
   ktop --sort cpu                 the fullest node first
   ktop --selector type=kwok       only the nodes with this label
   ktop --server https://127.0.0.1:10260   decisions of a scheduler on another port
   ktop --server https://127.0.0.1:10259 --server https://127.0.0.1:10260   two schedulers; v shows them side by side`

func ktopCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "ktop",
		Usage: "show the nodes, what pods request of them, pending pods, and how fast schedulers bind",
		Description: "It shows what pods request, not what they use, so it needs no metrics-server. P lists the pods, Enter leads from a\n" +
			"node to its pods, and from a pod or a decision to why it got its node. m draws a heat map, l shows\n" +
			"the decisions of the scheduler on this machine, t how it learns, s what it finds in the shadow of another one, v two\n" +
			"schedulers side by side. If stdout is not a terminal, ktop prints the table once.\n\nExamples:\n   " + ktopExamples,
		Flags: slices.Concat(cli.ClusterFlags(), []ucli.Flag{
			&ucli.BoolFlag{Name: "once", Usage: "print the table once and exit"},
			&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "print as `FORMAT` instead of drawing: table, wide, json or yaml"},
			&ucli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "print again after every interval, until Ctrl-C"},
			&ucli.DurationFlag{Name: "interval", Value: top.DefaultInterval, Usage: "`TIME` between two frames, at least 100ms"},
			&ucli.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "show only the nodes whose labels match `SELECTOR`"},
			&ucli.StringFlag{Name: "namespace", Aliases: []string{"n"},
				Usage: "list only the pods of this `NAMESPACE`; sums of nodes count all pods"},
			&ucli.StringFlag{Name: "sort", Value: "name",
				Usage: "sort by `COLUMN`: name, status, role, age, version, pods, cpu, memory or gpu; add :asc or :desc for the direction"},
			&ucli.StringFlag{Name: "log-dir", Usage: "`DIR`ectory of the log file; default: no log file"},
			&ucli.StringFlag{Name: "log-level", Value: "info", Usage: "`LEVEL`: debug, info, warn or error"},
		}, explain.ServersFlags()),
		Action: runKtop,
	}
}

func runKtop(c *ucli.Context) error {
	if c.Args().Present() {
		return exit.New(exit.Usage, fmt.Errorf("ktop takes no arguments, got %q", c.Args().First()),
			"use --selector or the / key to choose nodes")
	}
	format, err := top.ParseFormat(c.String("output"))
	if err != nil {
		return exit.New(exit.Usage, err, "see `ktop --help`")
	}
	sort, err := state.ParseSort(c.String("sort"))
	if err != nil {
		return exit.New(exit.Usage, err, "for example --sort cpu, or --sort cpu:asc")
	}
	if c.Bool("once") && c.Bool("watch") {
		return exit.New(exit.Usage, errors.New("--once and --watch exclude each other"), "leave one out")
	}
	cfg := top.Config{
		Selector: c.String("selector"), Namespace: c.String("namespace"), Interval: c.Duration("interval"), Sort: sort, Out: c.App.Writer,
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	print := c.Bool("once") || c.Bool("watch") || c.IsSet("output")
	if !print && !top.IsScreen(c.App.Writer) {
		fmt.Fprintln(c.App.ErrWriter, "ktop: stdout is not a terminal: printing once, as with --once")
		print = true
	}
	closer, err := ktopLog(c, !print)
	if err != nil {
		return err
	}
	defer closer.Close()
	if !print {
		cfg.Out = os.Stdout // the view draws in ASCII itself
	}
	cfg.Log = klog.Background()
	cfg.Explain = func(r decision.Record) (string, error) {
		var text strings.Builder
		err := explain.Write(&text, r, "")
		return text.String(), err
	}
	if err := ktopConnect(c, &cfg); err != nil {
		return err
	}
	if err := ktopAsk(c, &cfg); err != nil {
		return err
	}
	switch {
	case c.Bool("watch"):
		return top.Follow(c.Context, cfg, format)
	case print:
		return top.Once(c.Context, cfg, format)
	}
	if err := top.Run(c.Context, cfg); err != nil {
		return err
	}
	return c.Context.Err() // of a signal from outside; Ctrl-C is a key of the view
}

// ktopLog sends log messages to the log file only, if the view is drawn: they would disturb it.
func ktopLog(c *ucli.Context, drawing bool) (io.Closer, error) {
	cfg := logging.Config{Component: "ktop", Dir: c.String("log-dir"), Level: c.String("log-level"), Stderr: c.App.ErrWriter, NoColor: true}
	if drawing {
		cfg.Stderr = io.Discard
	}
	_, closer, err := logging.Setup(cfg)
	return closer, err
}

func ktopConnect(c *ucli.Context, cfg *top.Config) error {
	target := cli.Target(c)
	client, rest, err := target.Connect(c.Context)
	if err != nil {
		return err
	}
	cfg.Client = client
	if cfg.Title = target.Name(); cfg.Title == "" {
		cfg.Title = strings.TrimPrefix(rest.Host, "https://")
	}
	return nil
}

// ktopAsk chooses the schedulers to ask for their decisions. Most screens work without them, so only explicit flags lead to an error;
// otherwise the screens that show decisions say why they are empty.
func ktopAsk(c *ucli.Context, cfg *top.Config) error {
	clients, err := explain.Clients(c)
	switch {
	case err == nil:
	case c.IsSet("server") || c.IsSet("ca-file") || c.IsSet("token-file"):
		return err
	default:
		cfg.Servers = []state.Server{{Asker: noAsker{err}}}
	}
	for _, client := range clients {
		server := state.Server{Asker: client}
		if len(clients) > 1 {
			server.Name = client.Host()
		}
		cfg.Servers = append(cfg.Servers, server)
	}
	return nil
}

// noAsker answers with the reason why the scheduler cannot be asked.
type noAsker struct{ err error }

// Last implements state.Asker.
func (a noAsker) Last(context.Context, decision.Query) ([]decision.Record, error) { return nil, a.err }

// Learning implements state.Asker.
func (a noAsker) Learning(context.Context) (learningcurve.Samples, error) {
	return learningcurve.Samples{}, a.err
}

// Shadow implements state.Asker.
func (a noAsker) Shadow(context.Context) (shadow.Live, error) { return shadow.Live{}, a.err }
