package cem_test

import (
	"context"
	"fmt"

	"gnnsched/internal/cluster"
	tuning "gnnsched/scheduler/learn/cem"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

// A few generations of weights, tuned on a small cluster, cost less than the default scoring.
func Example() {
	t := tuning.Tuner{Search: tuning.Search{
		Env: sim.Config{
			Nodes: sim.Exactly(6), Sizes: []sim.NodeSize{{Weight: 1, Allocatable: sim.AAMLNode}},
			Shapes: []workload.Shape{
				{Name: "a", Weight: 1, Requests: cluster.Resources{MilliCPU: 1000, Memory: 4 << 30, Pods: 1}},
				{Name: "b", Weight: 1, Requests: cluster.Resources{MilliCPU: 4000, Memory: 4 << 30, Pods: 1}},
			},
			Replicas: sim.IntRange{Min: 3, Max: 6}, Load: sim.FloatRange{Min: 0.6, Max: 0.6}, Turnover: 1,
			Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}},
		},
		Baseline: heuristic.Kubernetes{}, Episodes: 4, WaitWeight: 1,
		Population: 12, Generations: 4, Spread: 1, Seed: 1,
	}}
	var last tuning.Generation
	p, err := t.Tune(context.Background(), "mine", func(g tuning.Generation) { last = g })
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Name(), "with", len(p.Weights()), "weights, better than the default scoring:", last.Elite < 1)
	// Output: mine with 20 weights, better than the default scoring: true
}
