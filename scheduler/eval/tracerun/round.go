package tracerun

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/eval/agreement"
	"gnnsched/scheduler/plugin"
	"gnnsched/workload"
	"gnnsched/workload/cleanup"
	"gnnsched/workload/driver"
	"gnnsched/workload/trace/openb"
)

// warmUp has every contender bind a pod: one that is not yet watching when the pods come would
// get them by name and not in their order.
func (r *replay) warmUp(ctx context.Context) error {
	pod := workload.Arrival{Lifetime: math.Inf(1), Deployment: workload.Deployment{
		Name: "first", Replicas: 1, Shape: workload.Shape{Requests: cluster.Resources{MilliCPU: 1, Pods: 1}},
	}}
	for _, x := range r.Contenders {
		sum, err := r.deploy(ctx, x, workload.Trace{pod}, patience, func(driver.Progress) {}, func() error { return nil })
		if err != nil {
			return err
		}
		if sum.Bound != 1 {
			return fmt.Errorf("scheduler %s bound no pod within %v", x.Name, patience)
		}
	}
	return nil
}

// rounds replays each seed with each contender. They take turns at who goes first, so that
// nobody always has the warmer caches.
func (r *replay) rounds(ctx context.Context) error {
	for i, seed := range r.Seeds {
		order := slices.Clone(r.Contenders)
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, x := range order {
			t, err := r.round(ctx, x, seed)
			if err != nil {
				return fmt.Errorf("%s, seed %d: %w", x.Name, seed, err)
			}
			r.report.Trials = append(r.report.Trials, t)
			r.done++
		}
	}
	return nil
}

// round deploys the arrivals of a seed on the empty cluster, and measures.
func (r *replay) round(ctx context.Context, x agreement.Contender, seed uint64) (t Trial, err error) {
	t = Trial{Policy: x.Name, Seed: seed}
	var simulated map[int][]string
	if t.Simulated, simulated, err = r.simulate(x, seed); err != nil {
		return t, fmt.Errorf("in the simulator: %w", err)
	}
	arrivals, err := openb.Inflate(r.pods, r.Factor, openb.GPUMilli(r.nodes), seed)
	if err != nil {
		return t, err
	}
	before, err := plugin.Fallbacks(x.Profile.SchedulerName)
	if err != nil {
		return t, err
	}
	var at map[string]string
	progress := func(p driver.Progress) {
		rounds := float64(len(r.Seeds) * len(r.Contenders))
		r.Progress((float64(r.done)+p.Done)/rounds, fmt.Sprintf("%s, seed %d: %d of %d pods have a node", x.Name, seed, p.Bound, p.Pods))
	}
	f, err := r.deploy(ctx, x, openb.InOrder(arrivals), r.Settle, progress, func() (err error) {
		at, err = checkBooks(ctx, r.client, driver.DefaultNamespace)
		return err
	})
	if err != nil {
		return t, err
	}
	after, err := plugin.Fallbacks(x.Profile.SchedulerName)
	t.Pods, t.Bound, t.GPU, t.Binding, t.Fallbacks = f.Pods, f.Bound, *f.GPU, f.Binding, after-before
	for i, a := range arrivals {
		want := "" // no node
		if nodes := simulated[i]; len(nodes) > 0 {
			want = nodes[0] + numbered
		}
		if at[a.Name] == want {
			t.Same++
		}
	}
	return t, err
}

// numbered is how kwokcluster numbers the one node of a pool.
const numbered = "-0"

// deploy deploys a trace on the empty cluster, looks at what came of it, and removes it.
func (r *replay) deploy(ctx context.Context, x agreement.Contender, t workload.Trace, settle time.Duration, progress func(driver.Progress), look func() error) (f driver.FillSummary, err error) {
	room, err := driver.Measure(ctx, r.client, nil)
	if err != nil {
		return f, err
	}
	if got, want := room.Allocatable.TotalGPUMilli(), openb.GPUMilli(r.nodes); got != want || room.Nodes != len(r.nodes) {
		return f, fmt.Errorf("the cluster has %d nodes with %d thousandths of a GPU, not %d with %d", room.Nodes, got, len(r.nodes), want)
	}
	cleaner, err := cleanup.New(r.rest)
	if err != nil {
		return f, err
	}
	cleaner.Force = true
	run := driver.NewRunID(time.Now())
	sum, err := driver.Run(ctx, driver.Config{
		Client: r.client, Cleaner: cleaner, Plan: t.Plan(), Bare: true, Room: room, Settle: settle,
		SchedulerName: x.Profile.SchedulerName, RunID: run, Log: r.Log, Progress: progress,
	})
	if err != nil {
		return f, err
	}
	if err := look(); err != nil {
		return f, err
	}
	return sum.Fills[0], cleaner.Remove(ctx, cleanup.Scope{Run: run}, nil)
}
