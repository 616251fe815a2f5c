package sim_test

import (
	"fmt"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

// This plays one episode. Each pod goes to the first node that it fits on.
func Example() {
	env, err := sim.New(sim.Config{
		Nodes:     sim.Exactly(4),
		Sizes:     []sim.NodeSize{{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 16_000, Memory: 64 << 30, Pods: 110}}},
		Shapes:    []workload.Shape{{Name: "web", Weight: 1, Requests: cluster.Resources{MilliCPU: 2000, Memory: 8 << 30, Pods: 1}}},
		Replicas:  sim.IntRange{Min: 1, Max: 4},
		Load:      sim.FloatRange{Min: 0.5, Max: 0.5},
		Objective: objective.Mix{{Term: objective.Pack{}, Weight: 1}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := env.Reset(1); err != nil {
		fmt.Println(err)
		return
	}
	var sum float64
	for !env.Done() {
		sum += env.Step(0) // the first of env.Candidates()
	}
	o := env.Outcome()
	fmt.Printf("%d of %d pods placed on %d of %d nodes; rewards add up to %.2f\n", o.Placed, o.Arrived, o.NodesInUse, o.Nodes, sum)
	// Output:
	// 17 of 17 pods placed on 3 of 4 nodes; rewards add up to -0.75
}

// After the fill, two more fills of pods arrive in bursts while others leave.
func ExampleArrivals() {
	env, err := sim.New(sim.Config{
		Nodes:     sim.Exactly(4),
		Sizes:     []sim.NodeSize{{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 16_000, Memory: 64 << 30, Pods: 110}}},
		Shapes:    []workload.Shape{{Name: "web", Weight: 1, Requests: cluster.Resources{MilliCPU: 2000, Memory: 8 << 30, Pods: 1}}},
		Replicas:  sim.Exactly(1),
		Load:      sim.FloatRange{Min: 0.5, Max: 0.5},
		Turnover:  2,
		Arrivals:  sim.Arrivals{Process: "bursts", Size: 0.25},
		Lifetimes: sim.Lifetimes{Distribution: "pareto", Alpha: 2},
		Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := env.Reset(1); err != nil {
		fmt.Println(err)
		return
	}
	plan := env.Plan()
	times := map[float64]int{}
	for _, a := range plan[16:] {
		times[a.At]++
	}
	fmt.Printf("%d pods arrive, the last %d in %d bursts\n", len(plan), len(plan)-16, len(times))
	// Output:
	// 48 pods arrive, the last 32 in 8 bursts
}
