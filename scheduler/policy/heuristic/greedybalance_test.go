package heuristic

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
)

// The placement with the best score leaves the objective's own cost lowest.
func TestGreedyBalanceLowersTheObjectiveMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		s := &cluster.Snapshot{}
		var rows []int32
		for i := range 2 + r.IntN(8) {
			n := &cluster.Node{Name: string(rune('a' + i)),
				Allocatable: cluster.Resources{MilliCPU: 1000 * (4 + r.Int64N(60)), Memory: (4 + r.Int64N(60)) << 30, Pods: 110}}
			for range r.IntN(5) {
				n.Add(cluster.Resources{MilliCPU: 100 * r.Int64N(8), Memory: r.Int64N(3) << 29, Pods: 1})
			}
			s.Nodes, rows = append(s.Nodes, n), append(rows, int32(i))
		}
		pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 100 + 100*r.Int64N(20), Memory: r.Int64N(5) << 28, Pods: 1}}
		scores := make([]float32, len(rows))
		fatal.If(t, (mostEven{}).Score(s, pod, rows, scores))
		costs := make([]float64, len(rows))
		for i, n := range s.Nodes {
			n.Add(pod.Requests)
			costs[i] = objective.Balance{}.Cost(s.Nodes)
			n.Remove(pod.Requests, 0)
		}
		for i := range rows {
			if best := policy.Best(scores); costs[best] > costs[i]+1e-7 {
				t.Fatalf("chose %d with cost %v, %d costs %v", best, costs[best], i, costs[i])
			}
		}
	})
}
