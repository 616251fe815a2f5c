package neural

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
)

// busy returns a cluster of n nodes in three zones, each with about forty pods of five shapes, which are the kinds that arrive.
func busy(n int) *cluster.Snapshot {
	rng, s := rand.New(rand.NewPCG(1, uint64(n))), &cluster.Snapshot{Demand: &cluster.Demand{}}
	for i := range 5 {
		s.Demand.Arrive(cluster.KindKey(shape(i)), shape(i))
	}
	for i := range n {
		v := &cluster.Node{
			Name: fmt.Sprintf("node-%d", i), Zone: fmt.Sprintf("zone-%d", i%3), Version: cluster.NextVersion(),
			Allocatable: cluster.Resources{MilliCPU: 64_000, Memory: 256 << 30, Pods: 110},
		}
		for range 30 + rng.IntN(20) {
			v.Add(shape(rng.IntN(5)).Requests)
		}
		s.Nodes = append(s.Nodes, v)
	}
	return s
}

func shape(i int) *cluster.Pod {
	return &cluster.Pod{Requests: cluster.Resources{MilliCPU: int64(1+i) * 100, Memory: int64(1+i%3) << 30, Pods: 1}}
}

// BenchmarkDecision measures a decision of the shipped networks as the scheduler makes it: one node has changed since the last decision, and
// every node is a candidate. The policies "linear" and "rule" are no networks: compare them with those.
func BenchmarkDecision(b *testing.B) {
	for _, name := range []string{"gnn", "dqn", "acgnn"} {
		net := fatal.Value(infer.New(fatal.Value(checkpoint.Shipped(name))(b)))(b)
		decisions(b, name, func() policy.Policy { return New(name, net, nil) })
	}
	decisions(b, "linear", func() policy.Policy { return linear.Tuned("linear") })
	decisions(b, "rule", func() policy.Policy { return linear.Rule() })
}

// decisions measures the decisions of a policy on clusters of several sizes.
func decisions(b *testing.B, name string, fresh func() policy.Policy) {
	for _, n := range []int{10, 100, 1000, 5000} {
		b.Run(fmt.Sprintf("%s/nodes=%d", name, n), func(b *testing.B) {
			s, p := busy(n), fresh()
			candidates, out := make([]int32, n), make([]float32, n)
			for i := range candidates {
				candidates[i] = int32(i)
			}
			pods := []*cluster.Pod{shape(0), shape(1), shape(2), shape(3), shape(4)}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				pod := pods[i%len(pods)]
				fatal.If(b, p.Score(s, pod, candidates, out))
				changed := s.Nodes[(i*7919)%n]
				if changed.Requested.Pods < 100 {
					changed.Add(pod.Requests)
				} else {
					changed.Remove(changed.Groups[0].Each, 0)
				}
			}
		})
	}
}
