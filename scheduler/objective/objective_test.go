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
