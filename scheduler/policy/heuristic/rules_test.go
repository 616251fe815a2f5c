package heuristic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/policy/policytest"
	"gnnsched/scheduler/policy/preference"
)

// A share of 300 goes beside one of 700, where nothing stays idle, and not beside one of 500, where another of 500 would fit.
func TestFillShareGoesWhereLeastStaysIdle(t *testing.T) {
	typical := fragmentation.NewTypical([]fragmentation.Demand{
		{Requests: policytest.Share(500), Count: 2}, {Requests: policytest.Share(300), Count: 1}, {Requests: policytest.Share(700), Count: 1}})
	s := &cluster.Snapshot{Nodes: []*cluster.Node{policytest.GPUNode(64_000, 1, policytest.Share(500)),
		policytest.GPUNode(64_000, 2, policytest.Share(500), policytest.Share(700))}}
	pod := &cluster.Pod{Requests: policytest.Share(300)}
	p := gpuFill.New(policy.Setting{Typical: typical})
	if got := policytest.Scores(t, p, s, pod, []int32{0, 1}); policy.Best(got) != 1 {
		t.Errorf("scores %v", got)
	}
	if on := policy.Devices(p, s.Nodes[1], pod); on != cluster.Device(1) {
		t.Errorf("the share is on %b", on)
	}
}

// A pod that needs much CPU goes where the devices can spare it.
func TestFillKeepsCPUBesideIdleDevices(t *testing.T) {
	much := cluster.Resources{MilliCPU: 16_000, GPU: 1, Pods: 1}
	typical := fragmentation.NewTypical([]fragmentation.Demand{{Requests: policytest.Whole(1), Count: 3}, {Requests: much, Count: 1}})
	s := &cluster.Snapshot{Nodes: []*cluster.Node{policytest.GPUNode(18_000, 4), policytest.GPUNode(100_000, 4)}}
	if got := policytest.Scores(t, gpuFill.New(policy.Setting{Typical: typical}), s, &cluster.Pod{Requests: much}, []int32{0, 1}); got[1] <= got[0] {
		t.Errorf("scores %v", got)
	}
}

// A pod without GPUs goes to a node without GPUs if one has room, to the one that the other policy prefers, and else where GPUs lose least.
func TestFillOnOrdinaryPods(t *testing.T) {
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 2000, Pods: 1}}
	s := &cluster.Snapshot{Nodes: []*cluster.Node{policytest.GPUNode(64_000, 2),
		policytest.GPUNode(64_000, 0, cluster.Resources{MilliCPU: 40_000, Pods: 1}), policytest.GPUNode(64_000, 0), policytest.GPUNode(4000, 2)}}
	typical := fragmentation.NewTypical([]fragmentation.Demand{
		{Requests: pod.Requests, Count: 3}, {Requests: policytest.Share(500), Count: 2}, {Requests: policytest.Whole(1), Count: 2}})
	p, ordinary := gpuFill.New(policy.Setting{Typical: typical}), linear.Tuned("linear")
	got := policytest.Scores(t, p, s, pod, []int32{0, 1, 2, 3})
	want := policytest.Scores(t, ordinary, s, pod, []int32{1, 2})
	if !slices.Equal(got[1:3], want) || max(got[0], got[3]) >= min(got[1], got[2]) {
		t.Errorf("scores %v, want %v for the nodes without GPUs, and less for the others", got, want)
	}
	if got := policytest.Scores(t, p, s, pod, []int32{0, 3}); got[0] <= got[1] {
		t.Errorf("scores %v: the CPU that GPU pods need is taken", got)
	}
}

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

// The help, from which docs/reference/policies.md is made, says which weights a recorded command reproduces.
func TestHowWeightsCameAbout(t *testing.T) {
	for _, name := range linear.TunedNames() {
		h := fatal.Value(Find(name))(t)
		recorded := linear.Tuned(name).Tuning != nil
		if !strings.Contains(h.About, "tuned by the cross-entropy method") || strings.Contains(h.About, "not recorded") == recorded {
			t.Errorf("%s, recorded %v: %s", name, recorded, h.About)
		}
	}
}

func TestFindLinear(t *testing.T) {
	name := FromWeights("../linear/linear-pack.json")
	h, err := Find(name)
	if err != nil || h.Name != name || h.New(policy.Setting{}).Name() != name || h.RandomTies {
		t.Fatal(h, err)
	}
	if d := cmp.Diff(linear.Tuned("linear-pack").Weights(), h.New(policy.Setting{}).(*linear.Policy).Weights()); d != "" {
		t.Error(d)
	}
	if _, err := Find(FromWeights("none.json")); err == nil || !strings.Contains(err.Error(), "none.json") {
		t.Error("a file that there is not:", err)
	}
}

// Only the default profile stands for upstream, whose plugins weigh preferences against requests. For all others
// preferences come first, also for those that play one of upstream's plugins alone.
func TestWhoStandsForUpstream(t *testing.T) {
	for _, h := range List() {
		u, is := h.New(policy.Setting{Seed: 1}).(policy.Upstream)
		if is != (h.Name == "kube-scheduler") || is && u.PreferenceWeights() != preference.Upstream {
			t.Errorf("%s stands for upstream: %v", h.Name, is)
		}
	}
}

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
