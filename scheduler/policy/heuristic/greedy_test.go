package heuristic

import (
	"math"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
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
	fatal.If(t, (&greedy{objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}}}).Score(&s, pod, rows, a))
	fatal.If(t, (mostEven{}).Score(&s, pod, rows, b))
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

// On measured nodes the policy goes by what the pod is expected to use: of two machines that are awake it takes the one
// whose power rises less.
func TestGreedyGoesByExpectedUsage(t *testing.T) {
	machine := func(full float64) *cluster.Node {
		n := &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 10_000, Memory: 8 << 30, Pods: 10},
			Power: &cluster.PowerModel{Idle: 10, Full: full}}
		n.Add(cluster.Resources{MilliCPU: 1000})
		n.Usage = &cluster.NodeUsage{}
		n.Usage.Known[cluster.UsedCPU], n.Usage.Measured[cluster.UsedCPU].Mean = true, 1000
		return n
	}
	s := cluster.Snapshot{Nodes: []*cluster.Node{machine(100), machine(40)}}
	energy, err := objective.Parse("energy")
	fatal.If(t, err)
	scores := make([]float32, 2)
	fatal.If(t, (&greedy{objective: energy}).Score(&s, &cluster.Pod{Requests: cluster.Resources{MilliCPU: 2000}}, []int32{0, 1},
		scores))
	// 2 of 10 cores: 18 and 6 of 140 W; the score is for each of two nodes.
	for i, want := range []float64{-2 * 18. / 140, -2 * 6. / 140} {
		if math.Abs(float64(scores[i])-want) > 1e-6 {
			t.Errorf("machine %d: %v, want %v", i, scores[i], want)
		}
	}
	if m := s.Nodes[0].Usage.Missing[cluster.UsedCPU]; m != 0 {
		t.Errorf("a node has changed: it misses %v", m)
	}
}
