package heuristic

import (
	"math"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
)

// The policy that is greedy for balance scores half of what greedy-balance does, and changes no node.
func TestGreedyForBalance(t *testing.T) {
	var s cluster.Snapshot
	for i := range int64(5) {
		n := &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 16_000 << (i % 2), Memory: 64 << 30, Pods: 10}}
		for range i {
			n.Add(cluster.Resources{MilliCPU: 900 * i, Memory: 1 << 30, Pods: 1})
		}
		s.Nodes = append(s.Nodes, n)
	}
	pod, rows := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1500, Memory: 4 << 30}}, []int32{0, 1, 2, 3, 4}
	before := s.Nodes[3].Requested
	a, b := make([]float32, 5), make([]float32, 5)
	if err := (&greedy{objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}}}).Score(&s, pod, rows, a); err != nil {
		t.Fatal(err)
	}
	if err := (mostEven{}).Score(&s, pod, rows, b); err != nil {
		t.Fatal(err)
	}
	for i := range a {
		if math.Abs(float64(2*a[i]-b[i])) > 1e-5 {
			t.Errorf("node %d: %v, want half of %v", i, a[i], b[i])
		}
	}
	if s.Nodes[3].Requested != before {
		t.Error("a node has changed")
	}
}

func TestFindGreedy(t *testing.T) {
	h, err := Find("greedy:pack=2+zones=1")
	if err != nil || h.Name != "greedy:pack=2+zones" || h.New(policy.Setting{Seed: 1}).Name() != h.Name {
		t.Error(h, err)
	}
	if _, err := Find("greedy:luck"); err == nil {
		t.Error("an objective that there is not is accepted")
	}
}
