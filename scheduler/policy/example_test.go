package policy_test

import (
	"fmt"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
)

// fewestPods prefers nodes that run few pods.
type fewestPods struct{}

func (fewestPods) Name() string { return "fewest-pods" }

func (fewestPods) Score(s *cluster.Snapshot, _ *cluster.Pod, candidates []int32, scores []float32) error {
	for i, row := range candidates {
		scores[i] = -float32(s.Nodes[row].Requested.Pods)
	}
	return nil
}

// A policy is a type with a name and scores. To offer it to users by name, list it in package
// heuristic.
func Example() {
	pod := &cluster.Pod{Name: "web", Requests: cluster.Resources{MilliCPU: 500, Memory: 1 << 30, Pods: 1}}
	snapshot := &cluster.Snapshot{}
	for i, running := range []int{3, 1, 2} {
		n := &cluster.Node{Name: fmt.Sprint("node-", i), Allocatable: cluster.Resources{MilliCPU: 4000, Memory: 16 << 30, Pods: 110}}
		for range running {
			n.Add(pod.Requests)
		}
		snapshot.Nodes = append(snapshot.Nodes, n)
	}

	var p policy.Policy = fewestPods{}
	candidates := snapshot.Feasible(pod, nil)
	scores := make([]float32, len(candidates))
	if err := p.Score(snapshot, pod, candidates, scores); err != nil {
		fmt.Println(err)
		return
	}
	best := snapshot.Nodes[candidates[policy.Best(scores)]]
	fmt.Println(p.Name(), "scores", scores, "and chooses", best.Name)
	// Output: fewest-pods scores [-3 -1 -2] and chooses node-1
}
