package tracerun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gnnsched/scheduler/eval/agreement"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
	"gnnsched/workload/trace/openb"
)

// SteadyConfig describes a comparison with pods that come and go, as sim.Steady defines them. Factor is the offered
// load. Times are in seconds of the trace.
type SteadyConfig struct {
	Config
	WarmUp, Duration float64
	Speed            float64 // seconds of the trace that pass in one second
}

// RunSteady plays the arrivals of every seed once with every contender on a test bed, and the same in the simulator. The
// report has what was measured until an error or the end of ctx; it is nil if the run could not begin. When RunSteady
// returns, cluster and scheduler have stopped.
func RunSteady(ctx context.Context, c SteadyConfig) (*SteadyReport, error) {
	if !(c.Speed > 0) || !(c.Duration > 0) || !(c.WarmUp >= 0) {
		return nil, fmt.Errorf("speed %v and duration %v must be over 0, and the warm-up %v 0 or more", c.Speed, c.Duration, c.WarmUp)
	}
	base, err := newComparison(c.Config)
	if err != nil {
		return nil, err
	}
	r := &steadyComparison{comparison: base, steady: c}
	r.out = &SteadyReport{
		PodsFile: c.PodsFile, GPURequests: c.GPUs, Load: c.Factor, Nodes: base.report.Nodes, GPUs: base.report.GPUs, Speed: c.Speed,
		WarmUp: c.WarmUp, Duration: c.Duration,
	}
	if _, err := r.draw(c.Seeds[0]); err != nil { // before a cluster starts
		return nil, err
	}
	return r.out, r.play(ctx, "steady", r.round)
}

// steadyComparison is a comparison under way.
type steadyComparison struct {
	*comparison
	steady SteadyConfig
	out    *SteadyReport
}

// draw returns the pods of a seed.
func (r *steadyComparison) draw(seed uint64) (openb.Steady, error) {
	return openb.DrawSteady(r.pods, r.Factor, openb.GPUMilli(r.nodes), r.steady.WarmUp+r.steady.Duration, seed)
}

// round plays a seed with a contender on the empty cluster, and adds the trial to the report. An interrupted round counts with its
// measurements after the warm-up.
func (r *steadyComparison) round(ctx context.Context, x agreement.Contender, seed uint64) error {
	before, err := countsOf(x)
	if err != nil {
		return err
	}
	drawn, err := r.draw(seed)
	if err != nil {
		return err
	}
	p := r.replay(x, seed, nil)
	p.plan, p.running, p.speed = slices.Concat(drawn.Running, drawn.Arriving), len(drawn.Running), r.steady.Speed
	for i, d := range p.plan {
		p.pods = append(p.pods, workload.Deployment{Name: fmt.Sprintf("%s-%d", p.RunID, i), Replicas: 1, Shape: r.pods[d.Pod].Shape()})
	}
	p.progress(0, "placing the pods that run at the start")
	if err := p.fill(ctx, p.running, func(int) {}); err != nil {
		return err
	}
	started, err := checkDevices(ctx, r.client)
	if err != nil {
		return err
	}
	if err := p.reject(ctx); err != nil {
		return err
	}
	end, played := p.play(ctx, r.steady.WarmUp+r.steady.Duration)
	if end > r.steady.WarmUp {
		t := SteadyTrial{Policy: x.Name, Seed: seed, Measured: end - r.steady.WarmUp, timing: p.timing(r.steady.WarmUp)}
		t.Cluster = outcomeOf(p.stays(), r.steady.WarmUp, end, openb.GPUMilli(r.nodes))
		all, simulated, err := r.simulate(x, seed, sim.OpenB{Steady: &sim.Steady{Load: r.Factor, WarmUp: r.steady.WarmUp, Duration: t.Measured}})
		if err != nil {
			return errors.Join(played, err)
		}
		t.Simulated, t.Started = all.Steady, p.running
		_, t.SameStart = same(p.pods[:p.running], started, simulated)
		after, err := countsOf(x)
		if err != nil {
			return errors.Join(played, err)
		}
		t.Fallbacks = after.fallbacks - before.fallbacks
		r.out.Trials = append(r.out.Trials, t)
	}
	if played != nil {
		return played
	}
	if _, err := checkDevices(ctx, r.client); err != nil {
		return err
	}
	return r.log.Clear(ctx)
}

// seconds returns a number of seconds as a duration.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
