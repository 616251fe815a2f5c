package objective

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
)

// at returns a node of 10 CPUs and 10 GiB with a pod that requests the given tenths of them.
func at(cpu, mem int64) *cluster.Node {
	n := &cluster.Node{Name: "n", Allocatable: cluster.Resources{MilliCPU: 10_000, Memory: 10 << 30, Pods: 10}}
	if cpu+mem > 0 {
		n.Add(cluster.Resources{MilliCPU: cpu * 1000, Memory: mem << 30})
	}
	return n
}

func tainted(n *cluster.Node) *cluster.Node {
	n.Taints = []cluster.Taint{{Key: "k", Effect: cluster.NoSchedule}}
	return n
}

func TestCost(t *testing.T) {
	for _, c := range []struct {
		name          string
		nodes         []*cluster.Node
		balance, pack float64
	}{
		{"none", nil, 0, 0},
		{"one", []*cluster.Node{at(3, 7)}, 0, 1},
		{"empty", []*cluster.Node{at(0, 0), at(0, 0)}, 0, 0},
		{"cpu apart", []*cluster.Node{at(2, 5), at(6, 5)}, 0.1, 1},
		{"both apart", []*cluster.Node{at(0, 0), at(10, 10)}, 0.5, 0.5},
		{"three, of a pod without a request for memory", []*cluster.Node{at(0, 0), at(0, 0), at(9, 0)}, (0.9 + 0.2/10.24) * math.Sqrt2 / 6, 1.0 / 3},
		{"control plane left out", []*cluster.Node{tainted(at(0, 0)), at(4, 4), at(4, 4), tainted(at(9, 9))}, 0, 1},
		{"cordoned left out", []*cluster.Node{{Unschedulable: true}, at(4, 4)}, 0, 1},
		{"nothing offered", []*cluster.Node{{}, at(0, 0)}, 0, 0},
		{"sizes respected", []*cluster.Node{at(5, 5),
			{Allocatable: cluster.Resources{MilliCPU: 2, Memory: 4}, Requested: cluster.Resources{MilliCPU: 1, Memory: 2, Pods: 1}}}, 0, 1},
	} {
		if got := (Balance{}).Cost(c.nodes); math.Abs(got-c.balance) > 1e-12 {
			t.Errorf("%s: balance %v, want %v", c.name, got, c.balance)
		}
		if got := (Pack{}).Cost(c.nodes); math.Abs(got-c.pack) > 1e-12 {
			t.Errorf("%s: pack %v, want %v", c.name, got, c.pack)
		}
	}
}

// pods is a term without Track.
type pods struct{}

func (pods) Name() string { return "pods" }
func (pods) Cost(nodes []*cluster.Node) float64 {
	return each.Sum(nodes, func(n *cluster.Node) float64 { return float64(n.Requested.Pods) })
}

// A tracker of a changing cluster gives the same costs as a computation from each state.
func TestTrackerFollows(t *testing.T) {
	mix := Mix{{pods{}, 2}}
	mix = append(mix, each.Map(Terms, func(term Term) Weighted { return Weighted{term, 0.5} })...)
	rapid.Check(t, func(t *rapid.T) {
		nodes := make([]*cluster.Node, rapid.IntRange(0, 12).Draw(t, "nodes"))
		for i := range nodes {
			a := rapid.Custom(func(t *rapid.T) int64 { return rapid.Int64Range(0, 64).Draw(t, "amount") })
			nodes[i] = &cluster.Node{Name: "n", Allocatable: cluster.Resources{
				MilliCPU: 100 * a.Draw(t, "cpu"), Memory: a.Draw(t, "mem") << 26, GPU: rapid.Int64Range(0, 2).Draw(t, "gpu"), Pods: 110,
			}, Zone: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "zone")}
			if rapid.IntRange(0, 4).Draw(t, "tainted") == 0 {
				tainted(nodes[i])
			}
			if rapid.Bool().Draw(t, "busy") {
				nodes[i].Add(cluster.Resources{MilliCPU: 700, Memory: 1 << 28})
			}
		}
		tracker := Track(mix, nodes)
		for step := range 40 {
			// sums of squares keep half the digits of a deviation near 0
			if got, want := tracker.Cost(), mix.Cost(nodes); math.Abs(got-want) > 1e-6 {
				t.Fatalf("after %d changes: cost %v, want %v", step, got, want)
			}
			if len(nodes) == 0 {
				return
			}
			i := rapid.IntRange(0, len(nodes)-1).Draw(t, "node")
			if g := nodes[i].Groups; len(g) > 0 && rapid.Bool().Draw(t, "remove") {
				nodes[i].Remove(g[0].Each, 0)
			} else {
				nodes[i].Add(cluster.Resources{
					MilliCPU: 100 * rapid.Int64Range(0, 9).Draw(t, "cpu"), Memory: rapid.Int64Range(0, 9).Draw(t, "mem") << 26,
					GPU: rapid.Int64Range(0, 1).Draw(t, "gpu"),
				})
			}
			tracker.Update(i)
		}
	})
}

// Rounding errors do not accumulate over a million updates.
func TestTrackerDoesNotDrift(t *testing.T) {
	nodes := make([]*cluster.Node, 7)
	for i := range nodes {
		nodes[i] = at(0, 0)
		nodes[i].Allocatable = cluster.Resources{MilliCPU: 7001 + int64(i), Memory: 9001, Pods: 110}
	}
	tracker := Track(Balance{}, nodes)
	pod := cluster.Resources{MilliCPU: 333, Memory: 777}
	for i := range 1_000_000 {
		n := nodes[i%7]
		if n.Requested.Pods > int64(i%5) {
			n.Remove(pod, 0)
		} else {
			n.Add(pod)
		}
		tracker.Update(i % 7)
	}
	if got, want := tracker.Cost(), (Balance{}).Cost(nodes); math.Abs(got-want) > 1e-9 {
		t.Errorf("after a million changes: %v, want %v", got, want)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ in, name, err string }{
		{in: "balance", name: "balance"},
		{in: " balance=1, pack=0.50", name: "balance,pack=0.5"},
		{in: "pack=2e-3", name: "pack=0.002"},
		{in: "", err: `no term is called ""; there are balance, ordinary, pack`},
		{in: "speed", err: `no term is called "speed"`},
		{in: "balance=much", err: `weight "much" of balance is not a number`},
		{in: "balance=0", err: "weight 0 of balance must be"},
		{in: "balance=-1", err: "weight -1 of balance must be"},
		{in: "balance=NaN", err: "weight NaN of balance must be"},
		{in: "balance=Inf", err: "weight +Inf of balance must be"},
		{in: "balance,pack,balance", err: "term balance occurs twice"},
	} {
		m, err := Parse(c.in)
		switch {
		case c.err == "" && (err != nil || m.Name() != c.name):
			t.Errorf("%q: %v, %v, want %s", c.in, m, err, c.name)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%q: %v, want %q in it", c.in, err, c.err)
		}
	}
	if err := (Mix{}).Validate(); err == nil {
		t.Error("an empty mix is valid")
	}
}

func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Mix
		for _, term := range Terms {
			if rapid.Bool().Draw(t, "in") {
				m = append(m, Weighted{term, rapid.Float64Range(1e-9, 1e9).Draw(t, "weight")})
			}
		}
		if len(m) == 0 {
			m = Mix{{Pack{}, 1}}
		}
		text := fatal.Value(m.MarshalText())(t)
		var again Mix
		if err := again.UnmarshalText(text); err != nil || again.Name() != m.Name() || len(again) != len(m) || again[0] != m[0] {
			t.Fatalf("%s became %v: %v", text, again, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"balance", "balance=1,pack=0.5", "pack=1e400", ",", "=", "balance=0x1p-2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := Parse(s)
		if err != nil {
			return
		}
		if err := m.Validate(); err != nil {
			t.Fatalf("accepted %q: %v", s, err)
		}
		if again, err := Parse(m.Name()); err != nil || again.Name() != m.Name() {
			t.Fatalf("%q became %q became %v (%v)", s, m.Name(), again, err)
		}
	})
}

func in(zone string, n *cluster.Node) *cluster.Node {
	n.Zone = zone
	return n
}

func withGPU(offered, requested int64, n *cluster.Node) *cluster.Node {
	n.Allocatable.GPU, n.Requested.GPU = offered, requested
	return n
}

func TestZones(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []*cluster.Node
		want  float64
	}{
		{"none", nil, 0},
		{"no zones", []*cluster.Node{at(2, 2), at(9, 9)}, 0},
		{"one zone", []*cluster.Node{in("a", at(2, 2)), in("a", at(9, 9))}, 0},
		{"even zones of uneven nodes", []*cluster.Node{in("a", at(0, 0)), in("a", at(8, 8)), in("b", at(4, 4)), in("b", at(4, 4))}, 0},
		{"uneven", []*cluster.Node{in("a", at(2, 5)), in("b", at(6, 5)), at(9, 9), in("c", tainted(at(9, 9)))}, 0.1},
	} {
		if got := (Zones{}).Cost(c.nodes); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Nodes of 10 CPU and 10 GiB take four large pods of 2.5 CPU and 2.5 GiB each.
func TestFragmentation(t *testing.T) {
	for _, c := range []struct {
		name       string
		nodes      []*cluster.Node
		cost, room float64
	}{
		{"none", nil, 0, 0},
		{"empty", []*cluster.Node{at(0, 0), at(0, 0)}, 0, 1},
		{"full", []*cluster.Node{at(10, 10)}, 0, 0},
		{"in large pieces", []*cluster.Node{at(5, 5), at(0, 0)}, 0, 0.75},
		{"in small pieces", []*cluster.Node{at(8, 8), at(8, 8)}, 0.2, 0},
		{"memory decides", []*cluster.Node{at(0, 8), at(0, 8)}, 0.2, 0},
		{"control plane left out", []*cluster.Node{at(5, 5), tainted(at(8, 8))}, 0, 0.5},
	} {
		if got := (Fragmentation{}).Cost(c.nodes); math.Abs(got-c.cost) > 1e-9 {
			t.Errorf("%s: fragmentation %v, want %v", c.name, got, c.cost)
		}
		if got := Room(c.nodes); math.Abs(got-c.room) > 1e-12 {
			t.Errorf("%s: room %v, want %v", c.name, got, c.room)
		}
	}
}

// GPUs count if there are any, over the nodes that have them.
func TestBalanceOfGPUs(t *testing.T) {
	without := []*cluster.Node{at(2, 5), at(6, 5), at(4, 5)}
	want := Balance{}.Cost(without)
	some := []*cluster.Node{withGPU(4, 1, at(2, 5)), withGPU(8, 6, at(6, 5)), at(4, 5)}
	if got := (Balance{}).Cost(some); math.Abs(got-(2*want+0.25)/3) > 1e-12 {
		t.Errorf("%v, want %v", got, (2*want+0.25)/3)
	}
	some[0].Requested.GPU, some[0].Requested.GPUMilli = 0, 1000 // shares of a device count with their size
	if got := (Balance{}).Cost(some); math.Abs(got-(2*want+0.25)/3) > 1e-12 {
		t.Errorf("with shares: %v, want %v", got, (2*want+0.25)/3)
	}
	if got := (Balance{}).Cost([]*cluster.Node{tainted(withGPU(4, 4, at(0, 0))), without[0], without[1], without[2]}); got != want {
		t.Errorf("GPUs of a node that is not available: %v, want %v", got, want)
	}
}

// Every term lies between 0 and 1 while no node is overcommitted.
func TestTermsAreFractions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []*cluster.Node
		for range rapid.IntRange(0, 8).Draw(t, "nodes") {
			n := in(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone"),
				at(rapid.Int64Range(0, 10).Draw(t, "cpu"), rapid.Int64Range(0, 10).Draw(t, "mem")))
			nodes = append(nodes, n)
		}
		for _, term := range Terms {
			if c := term.Cost(nodes); !(c >= 0 && c <= 1) {
				t.Fatalf("%s: %v", term.Name(), c)
			}
		}
	})
}

// Nodes of 10 CPU and 10 GiB.
func TestOrdinary(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []*cluster.Node
		want  float64
	}{
		{"none", nil, 0},
		{"GPUs everywhere", []*cluster.Node{withGPU(4, 0, at(2, 2)), withGPU(4, 4, at(9, 9))}, 0},
		{"nodes with GPUs left out", []*cluster.Node{at(2, 2), withGPU(4, 4, at(9, 9)), at(6, 6)}, 0.2},
	} {
		if got := (Ordinary{}).Cost(c.nodes); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestGPUIdle(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []*cluster.Node
		want  float64
	}{
		{"none", nil, 0},
		{"no GPUs", []*cluster.Node{at(2, 2)}, 0},
		{"some", []*cluster.Node{at(2, 2), withGPU(4, 4, at(9, 9)), withGPU(4, 1, at(9, 9)), tainted(withGPU(4, 1, at(9, 9)))}, 0.5},
	} {
		if got := (GPUIdle{}).Cost(c.nodes); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The cost of three machines is computed by hand: one is half used, one is empty and sleeps, one may not sleep.
func TestEnergy(t *testing.T) {
	watts := 10.0
	sleeper := &cluster.PowerModel{Idle: 100, Full: 300, Sleep: &watts}
	node := func(m *cluster.PowerModel) *cluster.Node {
		return &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 10_000, Memory: 8 << 30, Pods: 10}, Power: m}
	}
	busy, asleep, awake := node(sleeper), node(sleeper), node(nil)
	busy.Add(cluster.Resources{MilliCPU: 5000})
	const fullAwake = 33.0 // 3.3 W for each of 10 threads
	check := func(want float64) {
		t.Helper()
		nodes := []*cluster.Node{busy, asleep, awake, {Unschedulable: true, Allocatable: awake.Allocatable}}
		if got := (energy{}).Cost(nodes) * (600 + fullAwake); math.Abs(got-want) > 1e-9 {
			t.Errorf("draws %v W, want %v", got, want)
		}
	}
	check(200 + 10 + 0.2*fullAwake)
	asleep.Add(cluster.Resources{MilliCPU: 1000})
	check(200 + 120 + 0.2*fullAwake)
	busy.Usage = &cluster.NodeUsage{}
	busy.Usage.Known[cluster.UsedCPU], busy.Usage.Measured[cluster.UsedCPU].Mean, busy.Usage.Missing[cluster.UsedCPU] = true, 1500, 1000
	check(150 + 120 + 0.2*fullAwake)
	if c := (energy{}).Cost(nil); c != 0 {
		t.Errorf("no nodes cost %v", c)
	}
}

// The tracker of a term about measured usage has the term's cost after every measurement, and placements do not
// change it.
func TestMeasuredTrackers(t *testing.T) {
	for _, term := range measured {
		t.Run(term.Name(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				nodes := make([]*cluster.Node, rapid.IntRange(1, 5).Draw(t, "nodes"))
				for i := range nodes {
					nodes[i] = &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 4000, Memory: 8 << 30, Pods: 10}}
				}
				tracker, told := Track(term, nodes), Mix{{Term: term, Weight: 1}}.Track(nodes)
				tell := Told(told)
				for step := range 10 {
					if got, alike, want := tracker.Cost(), told.Cost(), term.Cost(nodes); got != want || alike != want {
						t.Fatalf("step %d: the tracker says %v, the one that is told of measurements %v, the term %v", step, got, alike, want)
					}
					if rapid.Bool().Draw(t, "placement") {
						i := rapid.IntRange(0, len(nodes)-1).Draw(t, "node")
						nodes[i].Add(cluster.Resources{MilliCPU: 100})
						tracker.Update(i)
						continue
					}
					tell()
					for _, n := range nodes {
						if rapid.IntRange(0, 4).Draw(t, "lost") == 0 {
							n.Usage = nil
							continue
						}
						n.Usage = &cluster.NodeUsage{At: float64(60 * step), Wanted: rapid.Float64Range(0, 4000).Draw(t, "wanted")}
						n.Usage.Throttled = n.Usage.Wanted * rapid.Float64Range(0, 1).Draw(t, "throttled")
						for d := range n.Usage.Known {
							n.Usage.Known[d], n.Usage.Capacity[d] = rapid.Bool().Draw(t, "known"), 1e6
							n.Usage.Measured[d].Mean = rapid.Float64Range(0, 1e6).Draw(t, "mean")
						}
					}
				}
			})
		})
	}
}
