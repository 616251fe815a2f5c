package cem

import (
	"context"
	"errors"
	"math"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

// The search finds the minimum of a paraboloid, and the same seed gives the same numbers.
func TestMinimise(t *testing.T) {
	bottom := []float64{3, -2, 0.5}
	bowl := func(_ context.Context, _ int, vectors [][]float64) ([]float64, error) {
		out := make([]float64, len(vectors))
		for k, w := range vectors {
			for i := range w {
				out[k] += (w[i] - bottom[i]) * (w[i] - bottom[i])
			}
		}
		return out, nil
	}
	p := Problem{Population: 40, Generations: 40, Start: make([]float64, 3), Spread: 1, Seed: 7, Losses: bowl}
	var first []float64
	for range 2 {
		w, err := p.Minimise(context.Background(), nil)
		fatal.If(t, err)
		for i := range w {
			if math.Abs(w[i]-bottom[i]) > 0.05 || first != nil && w[i] != first[i] {
				t.Fatalf("found %v, at first %v, want %v", w, first, bottom)
			}
		}
		first = w
	}
	p.Population = 7
	if _, err := p.Minimise(context.Background(), nil); err == nil {
		t.Error("an elite of one is accepted")
	}
}

// env is a small cluster on which balance can be gained: preferences are off, because replicas that are
// spread over six nodes leave little to choose.
func env() sim.Config {
	return sim.Config{
		Nodes: sim.Exactly(6), Sizes: []sim.NodeSize{{Weight: 1, Allocatable: sim.AAMLNode},
			{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 16_000, Memory: 64 << 30, Pods: 110}}},
		Shapes: []workload.Shape{
			{Name: "a", Weight: 1, Requests: cluster.Resources{MilliCPU: 1000, Memory: 4 << 30, Pods: 1}},
			{Name: "b", Weight: 1, Requests: cluster.Resources{MilliCPU: 4000, Memory: 4 << 30, Pods: 1}},
		},
		Replicas: sim.IntRange{Min: 3, Max: 6}, Load: sim.FloatRange{Min: 0.6, Max: 0.6}, Turnover: 1,
		Preferences: preference.Off,
		Objective:   objective.Mix{{Term: objective.Balance{}, Weight: 1}},
	}
}

// From zero weights, a few generations end well below the cost of the default scoring.
func TestTuneLinear(t *testing.T) {
	l := Tuner{Search: Search{Env: env(), Baseline: heuristic.Kubernetes{}, Episodes: 6, WaitWeight: 1, Population: 20, Generations: 8,
		Spread: 1, Seed: 1}}
	var last Generation
	p, err := l.Tune(context.Background(), "tuned", func(g Generation) { last = g })
	fatal.If(t, err)
	if last.Number != 8 || last.Elite > 0.9 || p.Name() != "tuned" {
		t.Errorf("ended with %+v", last)
	}
}

// An interrupted Tuner returns the policy so far.
func TestTuneInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	l := Tuner{Search: Search{Env: env(), Baseline: heuristic.Kubernetes{}, Episodes: 1, Population: 8, Generations: 1000, Spread: 1, Seed: 1}}
	p, err := l.Tune(ctx, "x", func(Generation) { cancel() })
	if p == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", p, err)
	}
}
