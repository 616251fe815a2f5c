package heuristic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/policytest"
)

// node returns a node of size times 10 CPUs and 10 GiB, with a pod that requests the given CPUs and
// GiB.
func node(size, cpu, mem int64) *cluster.Node {
	n := &cluster.Node{Name: "n", Version: cluster.NextVersion(),
		Allocatable: cluster.Resources{MilliCPU: size * 10_000, Memory: size * 10 << 30, Pods: 10}}
	if cpu+mem > 0 {
		n.Add(cluster.Resources{MilliCPU: 1000 * cpu, Memory: mem << 30})
	}
	return n
}

func named(t *testing.T, name string) policy.Policy {
	h := fatal.Value(Find(name))(t)
	return h.New(policy.Setting{})
}

func TestHeuristicsPrefer(t *testing.T) {
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Memory: 1 << 30, Pods: 1}}
	for _, c := range []struct {
		name   string
		policy policy.Policy
		nodes  []*cluster.Node
		want   int
	}{
		{"emptiest", Kubernetes{}, []*cluster.Node{node(1, 4, 4), node(1, 2, 2), node(1, 6, 6)}, 1},
		{"evens out", Kubernetes{}, []*cluster.Node{node(1, 4, 4), node(1, 2, 6), node(1, 3, 3)}, 2},
		{"fullest", named(t, "most-allocated"), []*cluster.Node{node(1, 4, 4), node(1, 2, 2), node(1, 6, 6)}, 2},
		{"fullest by share", named(t, "most-allocated"), []*cluster.Node{node(1, 4, 4), node(4, 20, 20)}, 1},
		{"least left", leastLeft{}, []*cluster.Node{node(1, 4, 4), node(1, 6, 6), node(1, 2, 2)}, 1},
		{"least left by amount", leastLeft{}, []*cluster.Node{node(4, 20, 20), node(1, 4, 4)}, 1},
		{"nothing offered", leastLeft{}, []*cluster.Node{{Name: "none"}}, 0},
		{"most free", alignment{}, []*cluster.Node{node(1, 4, 4), node(1, 2, 2), node(1, 6, 6)}, 1},
		{"most free in all", alignment{}, []*cluster.Node{node(1, 4, 3), node(1, 2, 4), node(1, 7, 1)}, 1},
		{"in the ratio of the requests", evolved{}, []*cluster.Node{node(1, 4, 3), node(1, 3, 4), node(1, 3, 3)}, 2},
		{"more left", evolved{}, []*cluster.Node{node(1, 3, 3), node(1, 2, 2), node(1, 4, 4)}, 1},
		{"where it is a larger part", alignment{}, []*cluster.Node{node(4, 20, 20), node(1, 5, 5)}, 1},
		{"fullest by the shape", named(t, "requested-to-capacity-ratio"), []*cluster.Node{node(1, 4, 4), node(1, 2, 2), node(1, 6, 6)}, 2},
	} {
		s := &cluster.Snapshot{Nodes: c.nodes}
		got := policytest.Scores(t, c.policy, s, pod, policytest.Rows(len(c.nodes)))
		if policy.Best(got) != c.want {
			t.Errorf("%s: %s gives %v, want the best at %d", c.name, c.policy.Name(), got, c.want)
		}
		for _, v := range got {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				t.Errorf("%s: %s gives %v", c.name, c.policy.Name(), got)
			}
		}
	}
}

func TestRandomIsFairAndSeeded(t *testing.T) {
	a, b := NewRandom(rand.New(rand.NewPCG(1, 1))), NewRandom(rand.New(rand.NewPCG(1, 1)))
	candidates := make([]int32, 4)
	var count [4]int
	const rounds = 8000
	for range rounds {
		x := policytest.Scores(t, a, nil, nil, candidates)
		if y := policytest.Scores(t, b, nil, nil, candidates); fmt.Sprint(x) != fmt.Sprint(y) {
			t.Fatalf("the same seed gives %v and %v", x, y)
		}
		count[policy.Best(x)]++
	}
	for _, n := range count {
		if n < rounds/4-300 || n > rounds/4+300 { // eight standard deviations
			t.Errorf("of %d draws: %v", rounds, count)
		}
	}
}

// The scores of policies that neither draw nor take turns do not depend on the order of nodes.
func TestOrderOfNodesMeansNothing(t *testing.T) {
	for _, h := range anyCluster() {
		if !h.Kinds && h.Name != "round-robin" && h.Name != "random" {
			t.Run(h.Name, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					policytest.CheckOrder(t, func() policy.Policy { return h.New(policy.Setting{Seed: 1}) })
				})
			})
		}
	}
}

func anyCluster() []Heuristic {
	return slices.DeleteFunc(List(), func(h Heuristic) bool { return h.GPU })
}

func forGPUs() []Heuristic {
	return slices.DeleteFunc(List(), func(h Heuristic) bool { return !h.GPU })
}

// Names are distinct, equal the names of the policies, and are found.
func TestHeuristicNames(t *testing.T) {
	names := append(Names(), GPUNames()...)
	for i, n := range names {
		h, err := Find(n)
		if err != nil || h.New(policy.Setting{Seed: 1}).Name() != n || h.About == "" || slices.Index(names, n) != i {
			t.Errorf("%s: %+v, %v", n, h, err)
		}
	}
	if _, err := Find("worst-fit"); err == nil {
		t.Error("worst-fit: no error")
	}
}

// On any state, even with nodes that offer nothing or are overcommitted, every heuristic gives finite
// scores, and the same seed gives the same scores.
func TestHeuristicsAreFiniteAndSeeded(t *testing.T) {
	for _, h := range List() {
		t.Run(h.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s, seed := policytest.DrawSnapshot(t), rapid.Uint64().Draw(t, "seed")
				a, b := h.New(policy.Setting{Seed: seed}), h.New(policy.Setting{Seed: seed})
				for range 3 {
					pod, candidates := &cluster.Pod{Requests: policytest.DrawRequests(t)}, policytest.DrawCandidates(t, len(s.Nodes))
					got := policytest.Scores(t, a, s, pod, candidates)
					for _, v := range got {
						if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
							t.Fatalf("scores %v", got)
						}
					}
					if again := policytest.Scores(t, b, s, pod, candidates); !slices.Equal(got, again) {
						t.Fatalf("%v, and again %v", got, again)
					}
				}
			})
		})
	}
}

// While every node is a candidate, each has its turn once a round. A node that is no candidate is
// skipped, and no other node loses its turn.
func TestRoundRobinTakesTurns(t *testing.T) {
	s := &cluster.Snapshot{Nodes: []*cluster.Node{node(1, 0, 0), node(1, 0, 0), node(1, 0, 0)}}
	p := &inTurn{}
	for i, c := range []struct {
		candidates []int32
		want       int32
	}{
		{[]int32{0, 1, 2}, 0}, {[]int32{0, 1, 2}, 1}, {[]int32{2, 1, 0}, 2}, {[]int32{0, 1, 2}, 0},
		{[]int32{0, 2}, 2}, {[]int32{1, 2}, 1}, {[]int32{1}, 1}, {[]int32{0, 1, 2}, 2},
	} {
		if got := c.candidates[policy.Best(policytest.Scores(t, p, s, nil, c.candidates))]; got != c.want {
			t.Errorf("decision %d among %v: %d, want %d", i, c.candidates, got, c.want)
		}
	}
	s.Nodes = s.Nodes[:1]
	if got := policy.Best(policytest.Scores(t, p, s, nil, []int32{0})); got != 0 {
		t.Errorf("after the others left: %d", got)
	}
}

// gpu returns the GPU policy of a name.
func gpu(name string) policy.Policy {
	h, err := Find(name)
	if err != nil {
		panic(err)
	}
	return h.New(policy.Setting{})
}

// The scores are computed by hand from the formulas.
func TestPublishedGPUPolicies(t *testing.T) {
	cpuOnly := cluster.Resources{MilliCPU: 8000, Pods: 1}
	for _, c := range []struct {
		policy policy.Policy
		node   *cluster.Node
		pod    cluster.Resources
		want   float32
	}{
		// 63 of 128 cores and 1 of 8 devices left: 1 - 0.24609 - 0.0625.
		{gpu("gpu-best-fit"), policytest.GPUNode(64_000, 2), policytest.Whole(1), 69},
		{gpu("gpu-best-fit"), policytest.GPUNode(64_000, 2), cpuOnly, 65}, // 1 - 0.21875 - 0.125
		// 1 - ½·(64·1/128² + 2·1/8²)
		{gpu("gpu-dot-product"), policytest.GPUNode(64_000, 2), policytest.Whole(1), 98},
		{gpu("gpu-dot-product"), policytest.GPUNode(128_000, 8), policytest.Whole(8), 49},
		{gpu("gpu-packing"), policytest.GPUNode(64_000, 2), cpuOnly, 0},
		{gpu("gpu-packing"), policytest.GPUNode(64_000, 4), policytest.Whole(1), 29},
		{gpu("gpu-packing"), policytest.GPUNode(64_000, 4), policytest.Share(300), 29},
		{gpu("gpu-packing"), policytest.GPUNode(64_000, 4, policytest.Share(300)), policytest.Whole(2), 48},
		{gpu("gpu-packing"), policytest.GPUNode(64_000, 4, policytest.Share(900)), policytest.Share(300), 49},
		{gpu("gpu-packing"), policytest.GPUNode(64_000, 4, policytest.Share(300)), policytest.Share(300), 93}, // 70% free
		{gpu("gpu-clustering"), policytest.GPUNode(64_000, 4, policytest.Whole(1)), cpuOnly, 0},
		// only similar pods; half full
		{gpu("gpu-clustering"), policytest.GPUNode(64_000, 4, policytest.Whole(1), cpuOnly), policytest.Whole(1), 87},
		// similar and other pods; half full
		{gpu("gpu-clustering"), policytest.GPUNode(64_000, 4, policytest.Whole(1), policytest.Share(500)), policytest.Share(500), 62},
		// no pods; half full
		{gpu("gpu-clustering"), policytest.GPUNode(64_000, 4), policytest.Whole(2), 37},
		// only other pods; 3.5 of 4
		{gpu("gpu-clustering"), policytest.GPUNode(64_000, 4, policytest.Whole(1), policytest.Share(500)), policytest.Whole(2), 21},
		// a quarter full
		{gpu("gpu-clustering"), policytest.GPUNode(64_000, 4, policytest.Share(200), policytest.Share(200)), policytest.Share(600), 75 + 6},
	} {
		s := &cluster.Snapshot{Nodes: []*cluster.Node{c.node}}
		if got := policytest.Scores(t, c.policy, s, &cluster.Pod{Requests: c.pod}, []int32{0})[0]; got != c.want {
			t.Errorf("%s, %+v on %v of %+v: %v, want %v", c.policy.Name(), c.pod, c.node.GPUs, c.node.Groups, got, c.want)
		}
	}
}

// Half of the typical pods need a whole device, so they cannot use the rest of a shared one. A share
// goes to the device, on the node, where it fragments least.
func TestFGD(t *testing.T) {
	typical := fragmentation.NewTypical([]fragmentation.Demand{{Requests: policytest.Whole(1), Count: 1},
		{Requests: policytest.Share(500), Count: 1}})
	p := NewFGD(typical)
	idle, shared := policytest.GPUNode(64_000, 2), policytest.GPUNode(64_000, 2, policytest.Share(500))
	s := &cluster.Snapshot{Nodes: []*cluster.Node{idle, shared}}
	pod := &cluster.Pod{Requests: policytest.Share(500)}
	// F of idle: 0, then ½·500; of shared: ½·500, then 0. 100·sigmoid(∓0.25) = 43.8 and 56.2.
	if got := policytest.Scores(t, p, s, pod, []int32{0, 1}); !slices.Equal(got, []float32{43, 56}) {
		t.Errorf("scores %v", got)
	}
	if on := p.Devices(shared, pod); on != cluster.Device(0) {
		t.Errorf("on devices %b", on)
	}
	if on := p.Devices(idle, &cluster.Pod{Requests: policytest.Whole(2)}); on != 3 {
		t.Errorf("two devices: %b", on)
	}
	if got := policytest.Scores(t, NewFGD(nil), s, pod, []int32{0, 1}); !slices.Equal(got, []float32{50, 50}) {
		t.Errorf("an unknown workload: %v", got)
	}
}

// Caches never show: while nodes change, a policy scores like a new one, and the devices that it
// chooses have room.
func TestGPUPoliciesRememberRight(t *testing.T) {
	typical := fragmentation.NewTypical([]fragmentation.Demand{{Requests: policytest.Whole(1), Count: 3},
		{Requests: policytest.Share(300), Count: 2}, {Requests: policytest.Whole(2), Count: 1},
		{Requests: cluster.Resources{MilliCPU: 4000, Pods: 1}, Count: 1}})
	for _, h := range forGPUs() {
		t.Run(h.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := &cluster.Snapshot{}
				for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
					s.Nodes = append(s.Nodes, policytest.GPUNode(64_000, rapid.Int64Range(0, 4).Draw(t, "devices")))
					s.Nodes[i].Name = fmt.Sprint(i)
				}
				setting := policy.Setting{Typical: typical}
				kept := h.New(setting)
				for range rapid.IntRange(1, 25).Draw(t, "pods") {
					pod := &cluster.Pod{Requests: policytest.Whole(rapid.Int64Range(0, 3).Draw(t, "gpu"))}
					if pod.Requests.GPU == 0 {
						pod.Requests.GPUMilli = rapid.Int64Range(0, 4).Draw(t, "milli") * 200
					}
					rows := s.Feasible(pod, nil)
					if len(rows) == 0 {
						continue
					}
					got := policytest.Scores(t, kept, s, pod, rows)
					if want := policytest.Scores(t, h.New(setting), s, pod, rows); !slices.Equal(got, want) {
						t.Fatalf("%v, a new one %v", got, want)
					}
					n := s.Nodes[rows[rapid.IntRange(0, len(rows)-1).Draw(t, "choice")]]
					on := policy.Devices(kept, n, pod)
					n.AddOn(pod.Requests, on)
					if want := int(pod.Requests.GPU + min(pod.Requests.GPUMilli, 1)); on.Len() != want ||
						slices.Max(append(n.GPUs, 0)) > cluster.DeviceMilli {
						t.Fatalf("%+v is on %b: %v", pod.Requests, on, n.GPUs)
					}
				}
			})
		})
	}
}

// The random policy puts a share on any device with room, and on no other.
func TestRandomDevices(t *testing.T) {
	h := fatal.Value(Find("random"))(t)
	p, n := h.New(policy.Setting{Seed: 1}), policytest.GPUNode(64_000, 3)
	n.GPUs[1] = 800
	var seen cluster.DeviceSet
	for range 100 {
		seen |= policy.Devices(p, n, &cluster.Pod{Requests: policytest.Share(300)})
	}
	if seen != 0b101 {
		t.Errorf("devices %b", seen)
	}
}

// powerNodes are two nodes with 32 cores and two devices: T4 in an idle package, and V100 with a share on a busy
// package.
func powerNodes() *cluster.Snapshot {
	idle, busy := policytest.GPUNode(32_000, 2), policytest.GPUNode(32_000, 2, cluster.Resources{MilliCPU: 1000, GPUMilli: 600, Pods: 1})
	idle.GPUModel, busy.GPUModel = "T4", "V100M32"
	third := policytest.GPUNode(32_000, 2)
	third.GPUModel = "P100"
	return &cluster.Snapshot{Nodes: []*cluster.Node{idle, busy, third}}
}

// The increases are computed by hand. A device of an idle T4 node costs 60 W and its package 145 W, an idle V100
// 270 W and a busy package nothing, P100 225 W and 105 W.
func TestPWR(t *testing.T) {
	s := powerNodes()
	for _, x := range []struct {
		pod  cluster.Resources
		want []float32
	}{
		{policytest.Whole(1), []float32{100, 48, 0}},                        // 205, 270 and 330 W: (330 - 270) / (330 - 205)
		{policytest.Share(400), []float32{37, 100, 0}},                      // 205, 0 and 330 W: the share in use has room
		{policytest.Share(500), []float32{100, 48, 0}},                      // 205, 270 and 330 W: it has none
		{cluster.Resources{MilliCPU: 1000, Pods: 1}, []float32{0, 100, 27}}, // 145, 0 and 105 W
	} {
		p := gpu("pwr")
		got := policytest.Scores(t, p, s, &cluster.Pod{Requests: x.pod}, []int32{0, 1, 2})
		if !slices.Equal(got, x.want) {
			t.Errorf("%+v: %v, want %v", x.pod, got, x.want)
		}
		if equal := policytest.Scores(t, p, s, &cluster.Pod{Requests: x.pod}, []int32{0}); equal[0] != 100 {
			t.Errorf("%+v: the only candidate has %v", x.pod, equal)
		}
	}
	if on := policy.Devices(gpu("pwr"), s.Nodes[1], &cluster.Pod{Requests: policytest.Share(400)}); on != cluster.Device(0) {
		t.Errorf("devices %b", on)
	}
}

// The mix is the weighted mean of both scores, and FGD chooses the devices.
func TestPWRMixedWithFGD(t *testing.T) {
	s := powerNodes()
	setting := policy.Setting{Typical: fragmentation.NewTypical([]fragmentation.Demand{{Requests: policytest.Share(400), Count: 1},
		{Requests: policytest.Whole(1), Count: 1}})}
	pod := &cluster.Pod{Requests: policytest.Share(400)}
	scores := func(name string) []float32 {
		h := fatal.Value(Find(name))(t)
		if h.New(setting).Name() != name || !h.TypicalPods && name != "pwr" {
			t.Errorf("%+v", h)
		}
		return slices.Clone(policytest.Scores(t, h.New(setting), s, pod, []int32{0, 1, 2}))
	}
	power, fgd, mixed := scores("pwr"), scores("fgd"), scores("pwr+fgd:0.25")
	for i := range mixed {
		if want := 0.25*power[i] + 0.75*fgd[i]; mixed[i] != want {
			t.Errorf("node %d: %v, want %v", i, mixed[i], want)
		}
	}
	h := fatal.Value(Find("pwr+fgd:0.25"))(t)
	if got, want := policy.Devices(h.New(setting), s.Nodes[1], pod), NewFGD(setting.Typical).Devices(s.Nodes[1], pod); got != want {
		t.Errorf("devices %b, FGD's are %b", got, want)
	}
	for _, name := range []string{"pwr+fgd:", "pwr+fgd:1.1", "pwr+fgd:x", "power+gpu-gnn", "power+gpu-gnn:-1", "power+gpu-gnn:NaN",
		"power+none:1", "power+gnn:1", "balance+gnn", "balance+gnn:0", "balance+gnn:-1", "balance+gpu-gnn:1", "balance+linear:1"} {
		if _, err := Find(name); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A price on power moves pods to nodes that draw less. Without one the network decides as ever.
func TestNetworkWithPower(t *testing.T) {
	s := powerNodes()
	setting := policy.Setting{Typical: fragmentation.NewTypical([]fragmentation.Demand{{Requests: policytest.Share(400), Count: 1},
		{Requests: policytest.Whole(1), Count: 1}})}
	pod := &cluster.Pod{Requests: policytest.Whole(1)}
	var scores [][]float32
	for _, name := range []string{"power+gpu-gnn:0", "power+gpu-gnn:1000"} {
		h := fatal.Value(Find(name))(t)
		if h.Network != "gpu-gnn" || !h.TypicalPods || h.RandomTies {
			t.Errorf("%+v", h)
		}
		scores = append(scores, slices.Clone(policytest.Scores(t, h.New(setting), s, pod, []int32{0, 1, 2})))
	}
	// 5.4 of 6 devices are idle, so that a watt costs 0.9 devices: 205, 270 and 330 of them.
	for i, watts := range []float32{205, 270, 330} {
		if cost := scores[0][i] - scores[1][i]; cost < 0.9*watts-0.01 || cost > 0.9*watts+0.01 {
			t.Errorf("node %d: power costs %v, want %v", i, cost, 0.9*watts)
		}
	}
}

// From a weight of a million on, the node that draws least more wins, and among equals the one that the network prefers. Its differences
// survive beside the price of watts, in units of 0.03 devices times the idle share.
func TestPowerFirst(t *testing.T) {
	using := func(milli int64) *cluster.Node {
		n := policytest.GPUNode(32_000, 2, policytest.Share(milli))
		n.GPUModel = "T4"
		return n
	}
	idle := policytest.GPUNode(32_000, 2)
	idle.GPUModel = "T4"
	s := &cluster.Snapshot{Nodes: []*cluster.Node{idle, using(100), using(300), using(600)}} // 205 W more on the first, else 60
	for range 40 {                                                                           // full, and no candidates
		n := policytest.GPUNode(32_000, 2, policytest.Whole(2))
		n.GPUModel = "T4"
		s.Nodes = append(s.Nodes, n)
	}
	setting := policy.Setting{Typical: fragmentation.NewTypical([]fragmentation.Demand{{Requests: policytest.Share(400), Count: 1},
		{Requests: policytest.Whole(1), Count: 1}})}
	pod := &cluster.Pod{Requests: policytest.Whole(1)}
	scores := func(name string) []float32 {
		h := fatal.Value(Find(name))(t)
		return slices.Clone(policytest.Scores(t, h.New(setting), s, pod, policytest.Rows(4)))
	}
	network := scores("power+gpu-gnn:0")
	const unit = 0.03 * 7.0 / 88 // 7 of 88 devices are idle
	if spread := slices.Max(network[1:]) - slices.Min(network[1:]); spread < 1.5*unit {
		t.Fatalf("the network's scores %v differ by so little that the test shows nothing", network[1:])
	}
	for _, name := range []string{"power+gpu-gnn:1e6", "power+gpu-gnn:1e9"} {
		first := scores(name)
		if first[0] > -1e8 {
			t.Errorf("%s: the node that draws 145 W more than the others has the score %v", name, first[0])
		}
		for i := 2; i < 4; i++ {
			if got, want := first[i]-first[1], network[i]-network[1]; got < want-unit-1e-3 || got > want+unit+1e-3 {
				t.Errorf("%s: node %d is %v above node 1, by the network %v", name, i, got, want)
			}
		}
		if slices.Max(first) != 0 {
			t.Errorf("%s: the best score is %v, want 0", name, slices.Max(first))
		}
	}
}

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
	energy := fatal.Value(objective.Parse("energy"))(t)
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
