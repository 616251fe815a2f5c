package linear

import (
	"context"
	"errors"
	"math"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

// The method finds the bottom of a bowl, and the same one twice.
func TestMinimise(t *testing.T) {
	bottom := []float64{3, -2, 0.5}
	bowl := func(_ int, w []float64) (float64, error) {
		var sum float64
		for i := range w {
			sum += (w[i] - bottom[i]) * (w[i] - bottom[i])
		}
		return sum, nil
	}
	c := CEM{Population: 40, Elite: 8, Generations: 40, Start: make([]float64, 3), Spread: 1, Noise: 0.2, Seed: 7}
	var first []float64
	for range 2 {
		w, err := c.Minimise(context.Background(), bowl, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range w {
			if math.Abs(w[i]-bottom[i]) > 0.05 || first != nil && w[i] != first[i] {
				t.Fatalf("found %v, at first %v, want %v", w, first, bottom)
			}
		}
		first = w
	}
	c.Elite = 50
	if _, err := c.Minimise(context.Background(), bowl, nil); err == nil {
		t.Error("an elite larger than the population is accepted")
	}
}

func env() sim.Config {
	return sim.Config{
		Nodes: sim.Exactly(6), Sizes: []sim.NodeSize{{Weight: 1, Allocatable: sim.AAMLNode}, {Weight: 1, Allocatable: cluster.Resources{MilliCPU: 16_000, Memory: 64 << 30, Pods: 110}}},
		Shapes: []workload.Shape{
			{Name: "a", Weight: 1, Requests: cluster.Resources{MilliCPU: 1000, Memory: 4 << 30, Pods: 1}},
			{Name: "b", Weight: 1, Requests: cluster.Resources{MilliCPU: 4000, Memory: 4 << 30, Pods: 1}},
		},
		Replicas: sim.IntRange{Min: 3, Max: 6}, Load: sim.FloatRange{Min: 0.6, Max: 0.6}, Turnover: 1,
		Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}},
	}
}

// From indifference, a few generations end well below the default scoring.
func TestTuneLinear(t *testing.T) {
	c := CEM{Population: 20, Elite: 5, Generations: 8, Spread: 1, Noise: 0.2, Seed: 1}
	l := Linear{Env: env(), Baseline: heuristic.Kubernetes{}, Episodes: 6, WaitWeight: 1, CEM: c}
	var last Generation
	p, err := l.Tune(context.Background(), "tuned", func(g Generation) { last = g })
	if err != nil {
		t.Fatal(err)
	}
	if last.Number != 8 || last.Elite > 0.9 || p.Name() != "tuned" {
		t.Errorf("ended with %+v", last)
	}
}

// Interrupted, it returns what it has.
func TestTuneInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := CEM{Population: 4, Elite: 2, Generations: 1000, Spread: 1, Seed: 1}
	l := Linear{Env: env(), Baseline: heuristic.Kubernetes{}, Episodes: 1, CEM: c}
	p, err := l.Tune(ctx, "x", func(Generation) { cancel() })
	if p == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", p, err)
	}
}
