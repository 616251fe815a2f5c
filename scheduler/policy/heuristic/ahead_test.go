package heuristic

import (
	"math"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy"
)

// A pod without running peers goes near the pods two steps away, and of racks that are as near to the one with room. What ahead adds to
// greedy, by hand: a fifth of what 60 bytes a second would go far, of all 95, and half a percent of the free share, times six nodes.
func TestAhead(t *testing.T) {
	pod, rows := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1600, Memory: 1 << 30}}, []int32{0, 1, 2, 3, 4, 5}
	scores := func(name string, s *cluster.Snapshot) []float32 {
		t.Helper()
		h := fatal.Value(Find(name))(t)
		p, out := h.New(policy.Setting{}), make([]float32, len(rows))
		if p.Name() != name || h.Name != name {
			t.Errorf("%s is called %s and %s", name, h.Name, p.Name())
		}
		fatal.If(t, p.Score(s, pod, rows, out))
		return out
	}
	s := talking()
	s.Peers, s.Beyond = nil, []cluster.Peer{{Row: 2, Pods: 1, Rate: 60}}
	s.Nodes[4].Requested = cluster.Resources{MilliCPU: 4000, Pods: 1}
	greedy, ahead := scores("greedy:traffic+overload", s), scores("ahead:traffic+overload", s)
	n := cluster.TrafficOf(s.Nodes).Network
	for i, row := range rows {
		free := 0.9 // of 16 cores of the rack, without 1.6
		if row >= 4 {
			free = 0.65
		}
		want := 6 * (0.005*free - 0.2*60*n.Path(row, 2).Distance/95)
		if got := float64(ahead[i] - greedy[i]); math.Abs(got-want) > 1e-6 {
			t.Errorf("row %d: %v more than greedy, want %v", row, got, want)
		}
	}
	if best := policy.Best(ahead); best != 2 {
		t.Errorf("row %d is the best, want that of the pods two steps away", best)
	}
	for _, node := range s.Nodes {
		node.Traffic = nil
	}
	if greedy, ahead := scores("greedy:traffic+overload", s),
		scores("ahead:traffic+overload", s); greedy[0] != ahead[0] || greedy[4] != ahead[4] {
		t.Errorf("without traffic: %v, want %v", ahead, greedy)
	}
	if _, err := Find("ahead:nothing"); err == nil {
		t.Error("an unknown objective is accepted")
	}
}
