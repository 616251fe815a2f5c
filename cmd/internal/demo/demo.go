package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"gnnsched/cmd/internal/top"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/server"
)

// Config says how large the demo is and where it writes.
type Config struct {
	Nodes   int     // of the simulated cluster, besides its control plane
	Load    float64 // fraction of CPU, memory or pod slots at which a round ends
	Seeds   int     // number of workloads; each goes through both schedulers
	Seed    uint64  // of the first workload
	Variant string  // the learned profile
	Draw    bool    // draw the cluster on the terminal; otherwise print a line now and then

	Launcher testbed.Launcher // starts the cluster
	LogDir   string           // folder of the cluster's log; empty: the log is deleted with the cluster
	Log      zerolog.Logger
	Out      io.Writer // for the summary
	Err      io.Writer // for progress
}

// Validate checks the values.
func (c Config) Validate() error {
	if c.Nodes < 1 || c.Nodes > 5000 {
		return exit.Usagef("%d nodes: choose 1 to 5000", c.Nodes)
	}
	if !(c.Load > 0 && c.Load <= 1) {
		return exit.Usagef("load %v: choose a fraction over 0 and up to 1", c.Load)
	}
	if c.Seeds < 1 || c.Seeds > 100 {
		return exit.Usagef("%d seeds: choose 1 to 100", c.Seeds)
	}
	if !slices.Contains(server.Variants, c.Variant) {
		return exit.Usagef("variant %q: choose one of %s", c.Variant, strings.Join(server.Variants, ", "))
	}
	return nil
}

// Run runs the demo and writes the summary. When it returns, the cluster and the scheduler have
// stopped and the cluster is deleted, also after an error or the end of ctx.
func Run(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	fmt.Fprintf(c.Err, "starting a simulated cluster of %d nodes …\n", c.Nodes)
	return testbed.Run(ctx, testbed.Config{
		Name: "demo", Launcher: c.Launcher, Nodes: testbed.Nodes{Count: c.Nodes}, LogDir: c.LogDir,
	}, c.compare)
}

// compare starts the scheduler, runs the rounds and writes the summary.
func (c Config) compare(ctx context.Context, b *testbed.Bed) error {
	fmt.Fprintf(c.Err, "starting kube-scheduler with the profiles %s and %s …\n", c.Variant, server.DefaultProfile)
	stop, err := b.StartScheduler(ctx, server.Config{Profiles: []server.Profile{
		{SchedulerName: c.Variant, Variant: c.Variant},
		{SchedulerName: server.DefaultProfile, Variant: server.DefaultProfile},
	}})
	if err != nil {
		return err
	}
	defer stop()
	d := &director{config: c, bed: b, results: map[string]*result{}}
	if err := d.show(ctx); err != nil {
		return err
	}
	if err := d.latencies(); err != nil {
		return err
	}
	return writeSummary(c.Out, c, *d.results[c.Variant], *d.results[server.DefaultProfile], time.Since(d.started))
}

// show runs the rounds, beneath the terminal view if Draw is set.
func (d *director) show(ctx context.Context) error {
	d.started = time.Now()
	if !d.config.Draw {
		return d.rounds(ctx)
	}
	view, closeView := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		defer closeView()
		done <- d.rounds(ctx)
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
