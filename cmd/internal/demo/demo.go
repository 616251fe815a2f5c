package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/cmd/internal/top"
	"gnnsched/internal/choice"
	"gnnsched/internal/exit"
	"gnnsched/internal/seeds"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/server"
)

// config holds the size of the demo and its output.
type config struct {
	Seeds   int    // number of workloads of each part; each goes through both schedulers
	Seed    uint64 // of the first workload
	Variant string // the learned profile of the part without GPUs
	Draw    bool   // draw the cluster on the terminal; otherwise print a line now and then

	Launcher testbed.Launcher // starts the clusters
	LogDir   string           // folder of the clusters' logs; empty: the logs are deleted with the clusters
	Log      zerolog.Logger
	Out      io.Writer // for the results
	Err      io.Writer // for progress
}

// validate checks the values.
func (c config) validate() error {
	if c.Seeds < 1 || c.Seeds > 100 {
		return exit.Usagef("%d seeds: choose 1 to 100", c.Seeds)
	}
	if err := seeds.CheckEvaluation(c.Seed, c.Seeds); err != nil {
		return exit.New(exit.Usage, err, "")
	}
	if !slices.Contains(server.Variants, c.Variant) {
		return exit.Usagef("%w", choice.Unknown("variant", c.Variant, server.Variants))
	}
	return nil
}

// run runs the demo and writes the results of each part when it ends. When it returns, the clusters
// and the schedulers have stopped and the clusters are deleted, also after an error or the end of ctx.
func run(ctx context.Context, c config) error {
	if err := c.validate(); err != nil {
		return err
	}
	all, err := parts(c.Variant)
	if err != nil {
		return err
	}
	for _, p := range all {
		if err := c.play(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// patience is the deadline of one pass of the network: longer than the default, so that the network
// also decides on a machine that is busy otherwise.
const patience = 2 * time.Second

// play runs a part on a cluster of its own and writes its results.
func (c config) play(ctx context.Context, p part) error {
	fmt.Fprintf(c.Err, "%s: starting a simulated cluster …\n", p.title)
	nodes, err := p.nodes()
	if err != nil {
		return err
	}
	d := newDirector(c, p)
	err = testbed.Run(ctx, testbed.Config{
		Name: "demo", Launcher: c.Launcher, Nodes: nodes, LogDir: c.LogDir,
		Scheduler: server.Config{Profiles: []server.Profile{
			{SchedulerName: p.learned, Args: server.Args{Variant: p.learned, Deadline: metav1.Duration{Duration: patience}}},
			{SchedulerName: server.DefaultProfile, Args: server.Args{Variant: server.DefaultProfile}},
		}},
	}, func(ctx context.Context, b *testbed.Bed) error {
		d.bed = b
		return d.show(ctx)
	})
	if err != nil {
		return err
	}
	usual, err := p.usual(ctx)
	if err != nil {
		return err
	}
	return d.write(c.Out, usual)
}

// show runs the rounds, beneath the terminal view if Draw is set.
func (d *director) show(ctx context.Context) error {
	if !d.config.Draw {
		return d.run(ctx)
	}
	view, closeView := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		defer closeView()
		done <- d.run(ctx)
	}()
	err := top.Run(view, top.Config{Client: d.bed.Client, Title: "gnnsched demo", Interval: 500 * time.Millisecond, Status: d.status})
	switch {
	case errors.Is(err, top.ErrInterrupted):
		d.bed.End(context.Canceled)
	case err != nil:
		d.bed.End(err)
	case view.Err() == nil: // the reader pressed q: go on without the view
		fmt.Fprintln(d.config.Err, "the view is closed; the demo goes on (Ctrl-C ends it)")
		d.plain.Store(true)
	}
	return <-done
}
