package heuristic

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
)

// talking returns six equal nodes in three racks in two zones, and peers of the pending pod on three of them.
func talking() *cluster.Snapshot {
	s := &cluster.Snapshot{}
	for i := range 6 {
		s.Nodes = append(s.Nodes, &cluster.Node{Zone: []string{"a", "a", "a", "a", "b", "b"}[i],
			Rack: []string{"0", "0", "1", "1", "0", "0"}[i], Allocatable: cluster.Resources{MilliCPU: 8000, Memory: 32 << 30, Pods: 10}})
	}
	t := cluster.NewTraffic(cluster.NewNetwork(cluster.Links{
		Node: cluster.Hop{Latency: 1, Bandwidth: 30}, Rack: cluster.Hop{Latency: 2, Bandwidth: 40}, Zone: cluster.Hop{Latency: 4, Bandwidth: 30},
	}, s.Nodes))
	for _, n := range s.Nodes {
		n.Traffic = t
	}
	t.Place(0, []cluster.Peer{{Row: 2, Pods: 1, Rate: 25}, {Row: 4, Pods: 1, Rate: 10}})
	s.Peers = []cluster.Peer{{Row: 0, Pods: 1, Rate: 5}, {Row: 2, Pods: 3, Rate: 20}, {Row: 4, Pods: 1, Rate: 30}}
	return s
}

// What affinity adds to kube-scheduler's scores, by hand: peers in the node's domain, between the least and the most of
// all candidates, scaled to 0 to 100 and rounded down, times two.
func TestAffinity(t *testing.T) {
	for topology, want := range map[string][]float32{
		"node": {66, 0, 200, 0, 66, 0},
		"rack": {0, 0, 200, 200, 0, 0},
		"zone": {200, 200, 200, 200, 0, 0},
	} {
		h := fatal.Value(Find("affinity:" + topology))(t)
		p, s := h.New(policy.Setting{}), talking()
		if _, upstream := p.(policy.Upstream); !upstream || p.Name() != h.Name {
			t.Errorf("%s is %v, upstream: %v", h.Name, p.Name(), upstream)
		}
		pod, rows := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Memory: 1 << 30}}, []int32{0, 1, 2, 3, 4, 5}
		base, got := make([]float32, 6), make([]float32, 6)
		fatal.If(t, (Kubernetes{}).Score(s, pod, rows, base))
		fatal.If(t, p.Score(s, pod, rows, got))
		for i := range got {
			got[i] -= base[i]
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", topology, d)
		}
		s.Peers = nil
		if err := p.Score(s, pod, rows, got); err != nil || cmp.Diff(base, got) != "" {
			t.Errorf("%s without peers: %v, want %v", topology, got, base)
		}
	}
	if _, err := Find("affinity:host"); err == nil {
		t.Error("a topology that there is not is accepted")
	}
}

// Greedy for traffic scores a candidate by what the cost falls if the pod is placed there, and changes nothing.
func TestGreedySeesTheMatrix(t *testing.T) {
	mix := fatal.Value(objective.Parse("traffic=1,overload=0.5"))(t)
	s, r := talking(), rand.New(rand.NewPCG(1, 1))
	rows := []int32{0, 1, 2, 3, 4, 5}
	before := s.Nodes[0].Traffic.Flows
	scores := make([]float32, len(rows))
	for range 20 {
		for i := range s.Peers {
			s.Peers[i].Rate = float64(r.IntN(50))
		}
		fatal.If(t, (&greedy{objective: mix}).Score(s, &cluster.Pod{}, rows, scores))
		for i, row := range rows {
			var moved cluster.Traffic
			s.Nodes[0].Traffic.CopyTo(&moved)
			moved.Place(row, s.Peers)
			now, then := before.MeanDistance()+0.5*before.ExcessShare(), moved.MeanDistance()+0.5*moved.ExcessShare()
			if d := float64(scores[i]) - 6*(now-then); d > 1e-5 || d < -1e-5 {
				t.Errorf("row %d: %v, want %v", row, scores[i], 6*(now-then))
			}
		}
	}
	if s.Nodes[0].Traffic.Flows != before {
		t.Error("the traffic has changed")
	}
}
