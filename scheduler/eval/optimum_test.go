package eval

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

func env(t rapid.TB, c sim.Config) *sim.Env {
	e, err := sim.New(c)
	fatal.If(t, err)
	return e
}

func size(weight float64, cpu, gi int64) sim.NodeSize {
	return sim.NodeSize{Weight: weight, Allocatable: cluster.Resources{MilliCPU: 1000 * cpu, Memory: gi << 30, Pods: 110}}
}

func shape(name string, cpu, gi int64) workload.Shape {
	return workload.Shape{Name: name, Weight: 1, Requests: cluster.Resources{MilliCPU: 1000 * cpu, Memory: gi << 30, Pods: 1}}
}

func fewNodes(o objective.Term) sim.Config {
	return sim.Config{
		Nodes: sim.Exactly(3), Sizes: []sim.NodeSize{size(1, 4, 8), size(1, 6, 6)},
		Shapes:   []workload.Shape{shape("a", 1, 1), shape("b", 2, 1), shape("c", 1, 3)},
		Replicas: sim.IntRange{Min: 1, Max: 2}, Load: sim.FloatRange{Min: 0.7, Max: 0.7},
		Objective: objective.Mix{{Term: o, Weight: 1}},
	}
}

// No policy has fewer pods unscheduled, or as few at a lower cost.
func TestNoPolicyBeatsTheOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := fewNodes(rapid.SampledFrom([]objective.Term{objective.Balance{}, objective.Pack{}}).Draw(t, "objective"))
		c.Nodes = sim.Exactly(rapid.IntRange(1, 3).Draw(t, "nodes"))
		load := rapid.Float64Range(0.2, 1.1).Draw(t, "load")
		c.Load = sim.FloatRange{Min: load, Max: load}
		c.ControlPlane = rapid.Bool().Draw(t, "control plane")
		seed := rapid.Uint64Range(0, 1000).Draw(t, "seed")
		e := env(t, c)
		best, err := bestOutcome(e, seed)
		fatal.If(t, err)
		for _, h := range heuristic.List() {
			if h.GPU {
				continue
			}
			o, err := Play(e, seed, h.New(policy.Setting{Seed: seed}), rand.New(rand.NewPCG(seed, 1)))
			fatal.If(t, err)
			if o.Arrived != best.Arrived || o.Unscheduled < best.Unscheduled || o.Unscheduled == best.Unscheduled && o.Cost < best.Cost-1e-12 {
				t.Fatalf("%s: %+v, the optimum is %+v", h.Name, o, best)
			}
		}
	})
}

// The optimum equals the best of all placements, tried one by one.
func TestOptimumAgainstEveryPlacement(t *testing.T) {
	for seed := range uint64(20) {
		c := fewNodes(objective.Balance{})
		c.Nodes, c.Load = sim.Exactly(2), sim.FloatRange{Min: 0.6, Max: 1}
		e := env(t, c)
		got, err := bestOutcome(e, seed)
		fatal.If(t, err)
		nodes, plan := e.Snapshot().Nodes, e.Plan()
		out, cost := len(plan), math.Inf(1)
		var place func(i, left int)
		place = func(i, left int) {
			if i == len(plan) {
				if now := c.Objective.Cost(nodes); left < out || left == out && now < cost {
					out, cost = left, now
				}
				return
			}
			for _, n := range nodes {
				if n.Fit(plan[i].Pod) == cluster.Fits {
					n.Add(plan[i].Pod.Requests)
					place(i+1, left)
					n.Remove(plan[i].Pod.Requests, 0)
				}
			}
			if left < out {
				place(i+1, left+1)
			}
		}
		place(0, 0)
		if got.Unscheduled != out || math.Abs(got.Cost-cost) > 1e-12 || got.Placed+got.Unscheduled != got.Arrived {
			t.Errorf("seed %d: %+v, want %d unscheduled at %v", seed, got, out, cost)
		}
	}
}

func TestOptimumRefuses(t *testing.T) {
	leaving := fewNodes(objective.Balance{})
	leaving.Turnover = 1
	if _, err := bestOutcome(env(t, leaving), 1); err == nil || !strings.Contains(err.Error(), "leave") {
		t.Errorf("pods leave: %v", err)
	}
	large := fewNodes(objective.Balance{})
	large.Nodes = sim.Exactly(40)
	if _, err := bestOutcome(env(t, large), 1); !errors.Is(err, errTooLarge) {
		t.Errorf("forty nodes: %v", err)
	}
}
