package heuristic_test

import (
	"fmt"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
)

// Heuristics are found by the names that flags and configuration files use.
func ExampleFind() {
	small := &cluster.Node{Name: "small", Allocatable: cluster.Resources{MilliCPU: 4000, Memory: 16 << 30, Pods: 110}}
	large := &cluster.Node{Name: "large", Allocatable: cluster.Resources{MilliCPU: 64_000, Memory: 256 << 30, Pods: 110}}
	snapshot := &cluster.Snapshot{Nodes: []*cluster.Node{small, large}}
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Memory: 4 << 30, Pods: 1}}
	for _, name := range []string{"kube-scheduler", "best-fit", "greedy:pack"} {
		h, err := heuristic.Find(name)
		if err != nil {
			fmt.Println(err)
			return
		}
		p := h.New(policy.Setting{Seed: 1})
		scores := make([]float32, 2)
		if err := p.Score(snapshot, pod, []int32{0, 1}, scores); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%-15s %-6s ties at random: %v\n", name, snapshot.Nodes[policy.Best(scores)].Name, h.RandomTies)
	}
	// Output:
	// kube-scheduler  large  ties at random: true
	// best-fit        small  ties at random: true
	// greedy:pack     small  ties at random: true
}
