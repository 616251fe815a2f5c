//go:build torch

package ppo

import (
	"math"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/sim"
)

// When the episode of one environment ends, those of its group are truncated. The return of a truncated
// episode's last placement includes the network's value of the state after it; that of an ended one
// does not.
func TestTruncatedEpisodesAreBootstrapped(t *testing.T) {
	c := tiny()
	c.Steps, c.Envs, c.Group, c.Rollout, c.Gamma, c.Lambda = 1000, 4, 4, 2000, 0.5, 0
	env := learntest.Env()
	env.Turnover, env.Load = 1, sim.FloatRange{Min: 0.97, Max: 0.99} // full: the environments do not end together
	start := weights(c, checkpoint.GNN)
	var f run.Figures
	envs, err := run.NewEnvironments(c.Settings, []sim.Config{env}, c.Layout(), start.Manifest.Architecture, &f)
	fatal.If(t, err)
	made, err := c.NewAgent(c.Settings, envs, start)
	fatal.If(t, err)
	p := made.(*agent)
	fatal.If(t, envs.Begin(start))
	defer p.Drop()
	fatal.If(t, p.playGroup(0, 0))
	r := p.rollout
	r.estimate(p.after, c.Gamma, c.Lambda)
	ended, truncated := 0, 0
	repeat(t, c, env, r, func(i int, after *sim.Env) {
		value := 0.0
		if after.Done() {
			ended++
		} else {
			truncated++
			out, err := plain(t, p.Net).NewSession().Score(encode.New(feature.Default()).Encode(after.Snapshot(), after.Pending(),
				after.Candidates()), nil)
			fatal.If(t, err)
			value = float64(out.Value)
		}
		if want := r[i].reward + c.Gamma*value; math.Abs(r[i].target-want) > 1e-4 {
			t.Errorf("placement %d: return %v, want %v", i, r[i].target, want)
		}
	})
	if ended == 0 || truncated == 0 {
		t.Fatalf("%d episodes ended, %d were truncated: the test needs both", ended, truncated)
	}
	if n := f.Count("charts/episodic_return"); n != ended+truncated {
		t.Errorf("%d episodes were reported; %d ended, %d were truncated", n, ended, truncated)
	}
}

// repeat plays the episodes of a rollout of one group again, and calls last after the last placement
// of each.
func repeat(t *testing.T, c settings, env sim.Config, r rollout, last func(i int, after *sim.Env)) {
	t.Helper()
	twin, seed := learntest.Started(t, env, 3), uint64(0)
	for i := range r {
		if i%c.Rollout == 0 {
			seed = c.Seed << 32
		}
		if i%c.Rollout == 0 || r[i-1].last {
			seed++
			fatal.If(t, twin.Reset(seed))
		}
		if twin.Step(r[i].action); r[i].last {
			last(i, twin)
		}
	}
}
