package linear_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
)

func greedy(t rapid.TB, name string) policy.Policy {
	h := fatal.Value(heuristic.Find(name))(t)
	return h.New(policy.Setting{})
}

// With a weight of zones only, the linear policy scores like the policy that is greedy for zones.
func TestLinearZonesIsGreedy(t *testing.T) {
	weights := make([]float64, len(linear.Features))
	weights[9] = 1
	p := fatal.Value(linear.New("x", weights))(t)
	var s cluster.Snapshot
	for i, zone := range []string{"a", "a", "b", "b", "c", ""} {
		n := &cluster.Node{Zone: zone, Allocatable: cluster.Resources{MilliCPU: 8000, Memory: 32 << 30, Pods: 110}}
		n.Add(cluster.Resources{MilliCPU: int64(500 * i), Memory: 3 << 30, Pods: 1})
		s.Nodes = append(s.Nodes, n)
	}
	pod, rows := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 2000, Memory: 1 << 30}}, []int32{0, 1, 2, 3, 4, 5}
	a, b := make([]float32, len(rows)), make([]float32, len(rows))
	fatal.If(t, p.Score(&s, pod, rows, a))
	fatal.If(t, greedy(t, "greedy:zones").Score(&s, pod, rows, b))
	for i := range a {
		if math.Abs(float64(a[i]-b[i])) > 1e-5 {
			t.Errorf("node %d: %v, greedy %v", i, a[i], b[i])
		}
	}
}

// With a weight of balance only, the linear policy scores like greedy-balance.
func TestLinearBalanceIsGreedy(t *testing.T) {
	weights := make([]float64, len(linear.Features))
	weights[0] = 1
	p := fatal.Value(linear.New("x", weights))(t)
	rapid.Check(t, func(t *rapid.T) {
		var s cluster.Snapshot
		var rows []int32
		for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
			n := &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 16_000 << rapid.IntRange(0, 2).Draw(t, "size"), Memory: 64 << 30, Pods: 110}}
			for range rapid.IntRange(0, 3).Draw(t, "pods") {
				n.Add(cluster.Resources{MilliCPU: int64(rapid.IntRange(1, 4000).Draw(t, "cpu")), Memory: 1 << 30, Pods: 1})
			}
			s.Nodes, rows = append(s.Nodes, n), append(rows, int32(i))
		}
		pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 500, Memory: 2 << 30, Pods: 1}}
		a, b := make([]float32, len(rows)), make([]float32, len(rows))
		fatal.If(t, p.Score(&s, pod, rows, a))
		fatal.If(t, greedy(t, "greedy-balance").Score(&s, pod, rows, b))
		for i := range a {
			if math.Abs(float64(a[i]-b[i])) > 1e-5 {
				t.Fatalf("candidate %d: %v, greedy %v", i, a[i], b[i])
			}
		}
	})
}
