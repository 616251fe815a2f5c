package tracerun

import (
	"context"
	"fmt"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/eval/agreement"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
	"gnnsched/workload/driver"
	"gnnsched/workload/trace/openb"
)

// warmUp has every contender bind one pod. A scheduler that starts watching only after the pods were
// created would get them sorted by name, not in the order of arrival.
func (r *comparison) warmUp(ctx context.Context) error {
	first := workload.Deployment{Name: "first", Replicas: 1, Shape: workload.Shape{Requests: cluster.Resources{MilliCPU: 1, Pods: 1}}}
	for _, x := range r.Contenders {
		p := r.replay(x, 0, []workload.Deployment{first})
		if err := p.fill(ctx, 1, func(int) {}); err != nil {
			return err
		}
		err := r.log.Wait(ctx, fmt.Sprintf("scheduler %s bound no pod", x.Name), func() (bool, int) { return r.log.Counts().Placed == 1, 0 })
		if err != nil {
			return err
		}
		if err := r.log.Clear(ctx); err != nil {
			return err
		}
	}
	return nil
}

// round plays the arrivals of a seed in the simulator and then on the empty cluster.
func (r *comparison) round(ctx context.Context, x agreement.Contender, seed uint64) error {
	t := Trial{Policy: x.Name, Seed: seed}
	var simulated map[int]place
	if r.GPUs != driver.Mixed {
		o, at, err := r.simulate(x, seed, sim.OpenB{Factor: r.Factor})
		if err != nil {
			return err
		}
		t.Simulated, simulated = o.GPU, at
	}
	arrivals, err := openb.Inflate(r.pods, r.Factor, openb.GPUMilli(r.nodes), seed)
	if err != nil {
		return err
	}
	before, err := countsOf(x)
	if err != nil {
		return err
	}
	var pods []workload.Deployment
	for _, a := range openb.InOrder(arrivals) {
		pods = append(pods, a.Deployment)
	}
	p := r.replay(x, seed, pods)
	err = p.fill(ctx, len(pods), func(placed int) {
		p.progress(float64(placed)/float64(len(pods)), fmt.Sprintf("%d of %d pods have a node", placed, len(pods)))
	})
	if err != nil {
		return err
	}
	t.GPU.Capacity = openb.GPUMilli(r.nodes)
	t.count(p)
	if t.Bound < t.Pods {
		r.Log.Warn().Int("pending", t.Pods-t.Bound).Msg("pods stay pending; continuing without them")
	}
	at, err := checkDevices(ctx, r.client)
	if err != nil {
		return err
	}
	if r.GPUs == driver.Mixed {
		t.Tally = tallyOf(arrivals, at)
	} else {
		t.Same, t.SameDevices = same(pods, at, simulated)
	}
	if err := r.log.Clear(ctx); err != nil {
		return err
	}
	after, err := countsOf(x)
	if err != nil {
		return err
	}
	t.Fallbacks, t.Choices = after.fallbacks-before.fallbacks, after.choices.Since(before.choices)
	r.report.Trials = append(r.report.Trials, t)
	return nil
}

// count counts the pods that have a node.
func (t *Trial) count(p *replay) {
	t.Pods = len(p.pods)
	for _, d := range p.pods {
		bound := 0
		if s := p.log.Seen(d.Name); placed(s) {
			bound, t.Binding = 1, max(t.Binding, s.Bound.Sub(p.start))
		}
		t.Bound += bound
		t.GPU.Add(d, bound)
	}
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

// same counts the pods that got the same node on the cluster as in the simulator, or no node in both, and among them the pods that
// got the same devices.
func same(pods []workload.Deployment, onCluster map[string]place, simulated map[int]place) (nodes, devices int) {
	for i, d := range pods {
		got, want := onCluster[d.Name], simulated[i]
		if got.node == want.node {
			nodes++
		}
		if got == want {
			devices++
		}
	}
	return nodes, devices
}
