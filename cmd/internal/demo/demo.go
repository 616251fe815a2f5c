package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"gnnsched/cmd/internal/top"
	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/server"
)

// Config says how large a demo is and where it talks.
type Config struct {
	Nodes   int     // of the simulated cluster, besides its control plane
	Load    float64 // fraction of CPU, memory or pod slots at which a round is full
	Seeds   int     // workloads; each goes through both schedulers
	Seed    uint64  // of the first workload
	Variant string  // the learned profile
	Live    bool    // draw the cluster on the terminal; otherwise print a line now and then

	Kwokcluster string // path of the kwokcluster program
	LogDir      string
	Log         zerolog.Logger
	Out         io.Writer // the summary
	Err         io.Writer // progress
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

// rate is the schedulers' limit of requests a second to the API server: none in practice.
const rate = 5000

// Run runs the demo and writes the summary. Everything that it started has stopped and its
// cluster is deleted when it returns, also after an error or the end of ctx.
func Run(ctx context.Context, c Config) (err error) {
	if err := c.Validate(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gnnsched-demo-*")
	if err != nil {
		return fmt.Errorf("make a directory for the cluster: %w", err)
	}
	defer os.RemoveAll(dir)
	fmt.Fprintf(c.Err, "starting a simulated cluster of %d nodes …\n", c.Nodes)
	logDir := c.LogDir
	if logDir == "" {
		logDir = dir
	}
	cl, err := testbed.Start(ctx, testbed.Config{
		Program: c.Kwokcluster, Dir: filepath.Join(dir, "cluster"), Log: filepath.Join(logDir, "demo-cluster.log"),
		Nodes: []string{"--nodes", strconv.Itoa(c.Nodes)},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cl.Stop()) }()

	ctx, cancel := cl.Watch(ctx)
	defer cancel(nil)
	client, rest, err := kubeconfig.Target{Kubeconfig: cl.Kubeconfig()}.Connect(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Err, "starting kube-scheduler with the profiles %s and %s …\n", c.Variant, server.DefaultProfile)
	stopScheduler, err := testbed.Schedule(ctx, dir, server.Config{Kubeconfig: cl.Kubeconfig(), QPS: rate, Profiles: []server.Profile{
		{SchedulerName: c.Variant, Variant: c.Variant},
		{SchedulerName: server.DefaultProfile, Variant: server.DefaultProfile},
	}}, cancel)
	if err != nil {
		return err
	}
	defer stopScheduler()
	d := &director{config: c, client: client, rest: rest, results: map[string]*Result{}}
	err = d.show(ctx, cancel)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		return err
	}
	if err := d.latencies(); err != nil {
		return err
	}
	return writeSummary(c.Out, c, *d.results[c.Variant], *d.results[server.DefaultProfile], time.Since(d.started))
}

// show runs the rounds, under the live view where there is a terminal.
func (d *director) show(ctx context.Context, cancel context.CancelCauseFunc) error {
	d.started = time.Now()
	if !d.config.Live {
		return d.rounds(ctx)
	}
	view, closeView := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		defer closeView()
		done <- d.rounds(ctx)
	}()
	err := top.Run(view, top.Config{Client: d.client, Title: "gnnsched demo", Interval: 500 * time.Millisecond, Status: d.status})
	switch {
	case errors.Is(err, top.ErrInterrupted):
		cancel(context.Canceled)
	case err != nil:
		cancel(err)
	case view.Err() == nil: // the reader pressed q: go on without the view
		fmt.Fprintln(d.config.Err, "the view is closed; the demo goes on (Ctrl-C ends it)")
		d.plain.Store(true)
	}
	return <-done
}
