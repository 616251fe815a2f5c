package neural

import (
	"fmt"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
)

// BenchmarkPeers measures a decision of gnn-traffic among 1,000 candidates in 36 racks, with so many nodes that run peers of the pending
// pod, and as many with pods two steps away.
func BenchmarkPeers(b *testing.B) {
	c, err := checkpoint.Shipped("gnn-traffic")
	fatal.If(b, err)
	net, err := infer.New(c)
	fatal.If(b, err)
	for _, peers := range []int{0, 10, 64} {
		b.Run(fmt.Sprintf("peers=%d", peers), func(b *testing.B) {
			s, rows := &cluster.Snapshot{}, []int32{}
			for i := range 1000 {
				s.Nodes = append(s.Nodes, &cluster.Node{
					Version: cluster.NextVersion(), Name: fmt.Sprint(i), Zone: string("abc"[i%3]), Rack: fmt.Sprint(i / 3 % 12),
					Allocatable: cluster.Resources{MilliCPU: 16000, Memory: 64 << 30, Pods: 110},
				})
				rows = append(rows, int32(i))
			}
			link := cluster.Hop{Latency: 1, Bandwidth: 1e9}
			t := cluster.NewTraffic(cluster.NewNetwork(cluster.Links{Node: link, Rack: link, Zone: link}, s.Nodes))
			for _, n := range s.Nodes {
				n.Traffic = t
			}
			for i := range peers {
				s.Peers = append(s.Peers, cluster.Peer{Row: int32(i), Pods: 1, Rate: 1e6})
				s.Beyond = append(s.Beyond, cluster.Peer{Row: int32(i + 20), Pods: 1, Rate: 1e6})
			}
			p, scores := New("gnn-traffic", net, nil), make([]float32, len(rows))
			pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Memory: 2 << 30}}
			for b.Loop() {
				fatal.If(b, p.Score(s, pod, rows, scores))
			}
		})
	}
}
