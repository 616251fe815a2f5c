package tracerun

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/eval/agreement"
	"gnnsched/scheduler/server"
	"gnnsched/workload"
	"gnnsched/workload/driver"
	"gnnsched/workload/trace/openb"
)

// warmUp has every contender bind one pod. A scheduler that starts watching only after the pods were
// created would get them sorted by name, not in the order of arrival.
func (r *comparison) warmUp(ctx context.Context) error {
	pod := workload.Arrival{Lifetime: math.Inf(1), Deployment: workload.Deployment{
		Name: "first", Replicas: 1, Shape: workload.Shape{Requests: cluster.Resources{MilliCPU: 1, Pods: 1}},
	}}
	for _, x := range r.Contenders {
		c := driver.Config{SchedulerName: x.Profile.SchedulerName, Plan: workload.Trace{pod}.Plan(), Settle: patience}
		err := r.deploy(ctx, c, func(f driver.FillSummary) error {
			if f.Bound != 1 {
				return fmt.Errorf("scheduler %s bound no pod within %v", x.Name, patience)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// rounds plays each seed with each contender. The contenders take turns at being first, so that
// none always has the warmer caches.
func (r *comparison) rounds(ctx context.Context) error {
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

// round plays the arrivals of a seed in the simulator and then on the empty cluster.
func (r *comparison) round(ctx context.Context, x agreement.Contender, seed uint64) (t Trial, err error) {
	t = Trial{Policy: x.Name, Seed: seed}
	var simulated map[int]place
	if r.GPUs != driver.Mixed {
		if t.Simulated, simulated, err = r.simulate(x, seed); err != nil {
			return t, fmt.Errorf("in the simulator: %w", err)
		}
	}
	arrivals, err := openb.Inflate(r.pods, r.Factor, openb.GPUMilli(r.nodes), seed)
	if err != nil {
		return t, err
	}
	before, err := countsOf(x)
	if err != nil {
		return t, err
	}
	progress := func(p driver.Progress) {
		rounds := float64(len(r.Seeds) * len(r.Contenders))
		r.Progress((float64(r.done)+p.Done)/rounds, fmt.Sprintf("%s, seed %d: %d of %d pods have a node", x.Name, seed, p.Bound, p.Pods))
	}
	c := driver.Config{
		SchedulerName: x.Profile.SchedulerName, Plan: openb.InOrder(arrivals).Plan(), Settle: r.Settle, Progress: progress, GPUs: r.GPUs,
	}
	err = r.deploy(ctx, c, func(f driver.FillSummary) error {
		t.Pods, t.Bound = f.Pods, f.Bound
		t.GPU, t.Binding = *f.GPU, f.Binding
		at, err := checkDevices(ctx, r.bed.Client, driver.DefaultNamespace)
		if r.GPUs == driver.Mixed {
			t.Tally = tallyOf(arrivals, at)
		} else {
			t.Same, t.SameDevices = same(arrivals, at, simulated)
		}
		return err
	})
	if err != nil {
		return t, err
	}
	after, err := countsOf(x)
	t.Fallbacks, t.Choices = after.fallbacks-before.fallbacks, after.choices.Since(before.choices)
	return t, err
}

// counts holds a profile's counters since this process started.
type counts struct {
	fallbacks int
	choices   server.ClaimChoices
}

func countsOf(x agreement.Contender) (c counts, err error) {
	if c.fallbacks, err = server.Fallbacks(x.Profile.SchedulerName); err != nil {
		return c, err
	}
	c.choices, err = server.ClaimChoicesOf(x.Profile.SchedulerName)
	return c, err
}

// same counts the arrivals that got the same node on the cluster as in the simulator, or no node in both, and among them the arrivals that
// got the same devices.
func same(arrivals []openb.Pod, onCluster map[string]place, simulated map[int]place) (nodes, devices int) {
	for i, a := range arrivals {
		got, want := onCluster[a.Name], simulated[i]
		if got.node == want.node {
			nodes++
		}
		if got == want {
			devices++
		}
	}
	return nodes, devices
}

// deploy deploys a plan of bare pods on the cluster, which must be empty, and calls inspect
// before it removes them.
func (r *comparison) deploy(ctx context.Context, c driver.Config, inspect func(driver.FillSummary) error) error {
	room, err := r.bed.Room(ctx)
	if err != nil {
		return err
	}
	if got, want := room.Allocatable.TotalGPUMilli(), openb.GPUMilli(r.nodes); got != want || room.Nodes != len(r.nodes) {
		return fmt.Errorf("the cluster has %d nodes with %d thousandths of a GPU, not %d with %d", room.Nodes, got, len(r.nodes), want)
	}
	c.Room, c.Log = room, r.Log
	c.Bare = true // Deployments would lose the order
	return r.bed.Deploy(ctx, c, inspect)
}
