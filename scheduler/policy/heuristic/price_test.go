package heuristic

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/policy/policytest"
)

// keepers are the policies that keep room: the rules, and the network that sets prices as price does.
func keepers(t testing.TB) []Heuristic {
	c := fatal.Value(checkpoint.Shipped("gnn"))(t)
	net := fatal.Value(infer.New(c))(t)
	network := Heuristic{Name: "gnn", New: func(policy.Setting) policy.Policy { return neural.New("gnn", net, nil) }}
	return []Heuristic{price, reserve, network}
}

// A pod that may run anywhere goes to the node that nobody needs, until pods need that one more.
func TestRoomIsKept(t *testing.T) {
	ssd := map[string]string{"disk": "ssd"}
	node := func(labels map[string]string) *cluster.Node {
		return &cluster.Node{Name: "n", Version: cluster.NextVersion(), Labels: labels,
			Allocatable: cluster.Resources{MilliCPU: 8000, Memory: 32 << 30, Pods: 110}}
	}
	web := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Memory: 4 << 30, Pods: 1}}
	db := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 4000, Memory: 16 << 30, Pods: 1}, NodeSelector: ssd}
	for _, h := range keepers(t) {
		s := &cluster.Snapshot{Nodes: []*cluster.Node{node(ssd), node(nil), node(nil), node(nil)}, Demand: &cluster.Demand{}}
		for range 3 {
			s.Demand.Arrive(cluster.KindKey(web), web)
		}
		p := h.New(policy.Setting{})
		// Nobody needs the SSD yet, so the first node is like the others.
		scores := policytest.Scores(t, p, s, web, policytest.Rows(4))
		if scores[0] != scores[1] {
			t.Errorf("%s: scores of equal nodes are %v", h.Name, scores)
		}
		s.Demand.Arrive(cluster.KindKey(db), db)
		s.Nodes[1].Add(cluster.Resources{MilliCPU: 2000, Memory: 8 << 30}) // fuller than the one with the SSD
		if scores = policytest.Scores(t, p, s, web, policytest.Rows(4)); policy.Best(scores) == 0 {
			t.Errorf("%s: takes the only node of a kind: %v", h.Name, scores)
		}
		if scores = policytest.Scores(t, p, s, db, []int32{0}); len(scores) != 1 {
			t.Errorf("%s: %v", h.Name, scores)
		}
	}
}

// Without counts the rules are linear.
func TestUncountedPodsAreLinear(t *testing.T) {
	s := &cluster.Snapshot{}
	for i := range 4 {
		n := &cluster.Node{Name: fmt.Sprint(i), Version: cluster.NextVersion(),
			Allocatable: cluster.Resources{MilliCPU: 8000, Memory: 32 << 30, Pods: 110}}
		n.Add(cluster.Resources{MilliCPU: int64(i * 500), Memory: 1 << 30})
		s.Nodes = append(s.Nodes, n)
	}
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Memory: 4 << 30, Pods: 1}}
	want := policytest.Scores(t, linearBalance.New(policy.Setting{}), s, pod, policytest.Rows(4))
	for _, h := range keepers(t) {
		for i, v := range policytest.Scores(t, h.New(policy.Setting{}), s, pod, policytest.Rows(4)) {
			if v != want[i] {
				t.Errorf("%s: node %d has %v, linear gives %v", h.Name, i, v, want[i])
			}
		}
	}
}

// Room is kept by scores alone: whatever arrives, every node on which a pod fits has a score, so that no pod waits while one is free.
func TestKeepingRoomRefusesNobody(t *testing.T) {
	all := keepers(t)
	rapid.Check(t, func(t *rapid.T) {
		labels := rapid.MapOf(rapid.SampledFrom([]string{"disk", "zone"}), rapid.SampledFrom([]string{"a", "b"}))
		pod := rapid.Custom(func(t *rapid.T) *cluster.Pod {
			return &cluster.Pod{NodeSelector: labels.Draw(t, "selector"), Requests: cluster.Resources{Pods: 1,
				MilliCPU: rapid.OneOf(rapid.Int64Range(0, 4000), rapid.Just(int64(cluster.MaxMilliCPU))).Draw(t, "cpu"),
				Memory:   rapid.OneOf(rapid.Int64Range(0, 8<<30), rapid.Just(int64(cluster.MaxMemory))).Draw(t, "memory")}}
		})
		s := &cluster.Snapshot{Demand: &cluster.Demand{}}
		for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
			n := &cluster.Node{Name: fmt.Sprint(i), Version: cluster.NextVersion(), Labels: labels.Draw(t, "labels"),
				Allocatable: cluster.Resources{MilliCPU: rapid.Int64Range(0, 8000).Draw(t, "cpus"), Memory: 16 << 30, Pods: 10}}
			n.Add(cluster.Resources{MilliCPU: rapid.Int64Range(0, 9000).Draw(t, "used"), Memory: 1 << 30, Pods: 1})
			s.Nodes = append(s.Nodes, n)
		}
		policies := each.Map(all, func(h Heuristic) policy.Policy { return h.New(policy.Setting{}) })
		for range rapid.IntRange(1, 100).Draw(t, "arrivals") {
			p := pod.Draw(t, "pod")
			s.Demand.Arrive(cluster.KindKey(p), p)
			s.Demand.Wait(cluster.KindKey(p), p, float64(rapid.IntRange(-1, 1).Draw(t, "waits")))
			rows, scores := policytest.Rows(len(s.Nodes)), make([]float32, len(s.Nodes))
			for _, rule := range policies {
				fatal.If(t, rule.Score(s, p, rows, scores))
				for i, v := range scores {
					if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
						t.Fatalf("%s gives node %d %v", rule.Name(), i, v)
					}
				}
			}
		}
	})
}

// BenchmarkPrice measures a decision among 1,000 nodes of which one has changed since the last, beside linear's.
func BenchmarkPrice(b *testing.B) {
	all := keepers(b)
	for _, kinds := range []int{8, 64} {
		for _, h := range []Heuristic{linearBalance, all[0], all[2]} {
			b.Run(fmt.Sprintf("%s/kinds=%d", h.Name, kinds), func(b *testing.B) {
				s := &cluster.Snapshot{Demand: &cluster.Demand{}}
				pods := make([]*cluster.Pod, kinds)
				for i := range pods {
					pods[i] = &cluster.Pod{Requests: cluster.Resources{MilliCPU: int64(100 + 50*i), Memory: int64(1+i%4) << 28, Pods: 1}}
					s.Demand.Arrive(cluster.KindKey(pods[i]), pods[i])
				}
				for i := range 1000 {
					n := &cluster.Node{Name: fmt.Sprint(i), Version: cluster.NextVersion(),
						Allocatable: cluster.Resources{MilliCPU: 64_000, Memory: 256 << 30, Pods: 110}}
					for j := range 20 + i%20 {
						n.Add(pods[(i+j)%kinds].Requests)
					}
					s.Nodes = append(s.Nodes, n)
				}
				p, rows, scores := h.New(policy.Setting{}), policytest.Rows(1000), make([]float32, 1000)
				for i := 0; b.Loop(); i++ {
					fatal.If(b, p.Score(s, pods[i%kinds], rows, scores))
					s.Nodes[(i*7919)%1000].Version = cluster.NextVersion()
				}
			})
		}
	}
}
