package cluster

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"

	"gnnsched/internal/fatal"
)

func node() *Node {
	return &Node{Name: "n", Labels: map[string]string{"disk": "ssd"}, Allocatable: Resources{MilliCPU: 4000, Memory: 8 << 30, GPU: 1, Pods: 3}}
}

func TestFit(t *testing.T) {
	small := Resources{MilliCPU: 500, Memory: 1 << 30, Pods: 1}
	taint := Taint{"dedicated", "gpu", NoSchedule}
	for _, c := range []struct {
		name string
		edit func(n *Node, p *Pod)
		want Reason
	}{
		{"fits", func(*Node, *Pod) {}, Fits},
		{"cordoned", func(n *Node, _ *Pod) { n.Unschedulable = true }, Cordoned},
		{"taint", func(n *Node, _ *Pod) { n.Taints = []Taint{taint} }, Untolerated},
		{"soft taint", func(n *Node, _ *Pod) { n.Taints = []Taint{{"a", "b", PreferNoSchedule}} }, Fits},
		{"tolerated by value", func(n *Node, p *Pod) {
			n.Taints, p.Tolerations = []Taint{taint}, []Toleration{{Key: "dedicated", Value: "gpu"}}
		}, Fits},
		{"wrong value", func(n *Node, p *Pod) {
			n.Taints, p.Tolerations = []Taint{taint}, []Toleration{{Key: "dedicated", Value: "cpu"}}
		}, Untolerated},
		{"tolerates everything", func(n *Node, p *Pod) { n.Taints, p.Tolerations = []Taint{taint}, []Toleration{{Exists: true}} }, Fits},
		{"other effect", func(n *Node, p *Pod) {
			n.Taints, p.Tolerations = []Taint{taint}, []Toleration{{Exists: true, Effect: NoExecute}}
		}, Untolerated},
		{"selector", func(_ *Node, p *Pod) { p.NodeSelector = map[string]string{"disk": "ssd"} }, Fits},
		{"selector miss", func(_ *Node, p *Pod) { p.NodeSelector = map[string]string{"disk": "hdd"} }, SelectorMiss},
		{"selector absent", func(_ *Node, p *Pod) { p.NodeSelector = map[string]string{"arch": ""} }, SelectorMiss},
		{"cpu", func(_ *Node, p *Pod) { p.Requests.MilliCPU = 4001 }, NoCPU},
		{"memory", func(_ *Node, p *Pod) { p.Requests.Memory = 9 << 30 }, NoMemory},
		{"gpu", func(_ *Node, p *Pod) { p.Requests.GPU = 2 }, NoGPU},
		{"pods", func(n *Node, _ *Pod) { n.Add(small); n.Add(small); n.Add(small) }, TooManyPods},
		{"asks nothing of an overcommitted node", func(n *Node, p *Pod) {
			n.Add(Resources{MilliCPU: 5000, Pods: 1})
			p.Requests = Resources{Pods: 1}
		}, Fits},
	} {
		n, p := node(), &Pod{Requests: small}
		c.edit(n, p)
		if got := n.Fit(p); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Adding pods and removing them in any order leaves the node as it was. After each step, Requested
// is the sum of the groups, and the groups are sorted and distinct.
func TestAddRemove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := node()
		shapes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Resources {
			return Resources{MilliCPU: rapid.Int64Range(0, 3).Draw(t, "cpu") * 100, Memory: rapid.Int64Range(0, 2).Draw(t, "mem") << 20, Pods: 1}
		}), 1, 30).Draw(t, "shapes")
		for _, s := range shapes {
			before := n.Version
			if n.Add(s); n.Unchanged(before) {
				t.Fatal("generation did not grow")
			}
			var sum Resources
			for i, g := range n.Groups {
				sum = sum.Plus(g.Each.Times(g.Count))
				if i > 0 && compare(n.Groups[i-1].Each, g.Each) >= 0 {
					t.Fatalf("groups not sorted: %v", n.Groups)
				}
			}
			if sum != n.Requested {
				t.Fatalf("requested %v, groups add up to %v", n.Requested, sum)
			}
		}
		for _, i := range rapid.Permutation(indices(len(shapes))).Draw(t, "order") {
			n.Remove(shapes[i], 0)
		}
		if n.Requested != (Resources{}) || len(n.Groups) != 0 {
			t.Fatalf("left over: %v %v", n.Requested, n.Groups)
		}
	})
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func TestRemoveOfUnknownPodPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	node().Remove(Resources{MilliCPU: 1, Pods: 1}, 0)
}

func TestFeasible(t *testing.T) {
	a, b, c := node(), node(), node()
	b.Unschedulable = true
	s := Snapshot{Nodes: []*Node{a, b, c}}
	if d := cmp.Diff([]int32{0, 2}, s.Feasible(&Pod{Requests: Resources{MilliCPU: 1, Pods: 1}}, nil)); d != "" {
		t.Error(d)
	}
}

func TestAdmits(t *testing.T) {
	tainted := Node{Taints: []Taint{{"a", "", PreferNoSchedule}, {"b", "", NoExecute}}}
	for _, c := range []struct {
		name      string
		node      Node
		available bool // without tolerations
		admits    bool // with a toleration of key b
	}{
		{"plain", Node{}, true, true},
		{"cordoned", Node{Unschedulable: true}, false, false},
		{"soft taint", Node{Taints: []Taint{{"a", "", PreferNoSchedule}}}, true, true},
		{"a soft and a hard taint", tainted, false, true},
		{"another hard taint", Node{Taints: []Taint{{"c", "", NoSchedule}}}, false, false},
		{"cordoned and tainted", Node{Unschedulable: true, Taints: tainted.Taints}, false, false},
	} {
		if got := c.node.Available(); got != c.available {
			t.Errorf("%s: available: %v", c.name, got)
		}
		if got := c.node.Admits([]Toleration{{Key: "b", Exists: true}}); got != c.admits {
			t.Errorf("%s: admits: %v", c.name, got)
		}
	}
}

func TestEntriesAreValidUntilTheNodeChanges(t *testing.T) {
	n := &Node{Name: "n", Version: NextVersion(), Allocatable: Resources{MilliCPU: 1000, Pods: 10}}
	r := Resources{MilliCPU: 100, Pods: 1}
	var c Cache[int]
	e := &c.Column(r, 1)[0]
	if e.Valid(n) {
		t.Error("an empty entry is valid")
	}
	e.Set(n, 7)
	if again := &c.Column(r, 1)[0]; !again.Valid(n) || again.Value != 7 {
		t.Errorf("got %+v, want a valid 7", again)
	}
	if other := &c.Column(Resources{MilliCPU: 200}, 1)[0]; other.Valid(n) {
		t.Error("the entry of another request is valid")
	}
	if grown := c.Column(r, 3); len(grown) < 3 || !grown[0].Valid(n) || grown[2].Valid(n) {
		t.Errorf("after growing: %+v", grown)
	}
	n.Add(r)
	if c.Column(r, 1)[0].Valid(n) {
		t.Error("the entry is valid after the node changed")
	}
	e = &c.Column(r, 1)[0]
	e.Set(n, 8)
	if c.Clear(); c.Column(r, 1)[0].Valid(n) {
		t.Error("the entry is valid after Clear")
	}
}

// The memory is bounded, however many different requests there are.
func TestColumnsAreBounded(t *testing.T) {
	var c Cache[int]
	for i := range int64(3 * maxColumns) {
		c.Column(Resources{MilliCPU: i}, 1)
	}
	if len(c.columns) > maxColumns {
		t.Errorf("%d columns", len(c.columns))
	}
}

// Sums give the mean and deviation of the values, and Moved those after one value has changed.
func TestSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 20).Draw(t, "values")
		var s Sums
		for _, x := range values {
			s.Add(x)
		}
		check(t, s, values)
		i := rapid.IntRange(0, len(values)-1).Draw(t, "which")
		d := rapid.Float64Range(-1, 1).Draw(t, "by")
		changed := slices.Clone(values)
		changed[i] += d
		check(t, s.Moved(values[i], d), changed)
	})
}

func check(t *rapid.T, s Sums, values []float64) {
	mean, std := stat.PopMeanStdDev(values, nil)
	if math.Abs(s.Mean()-mean) > 1e-9 || math.Abs(s.Std()-std) > 1e-6 {
		t.Fatalf("%v: mean %v and deviation %v, want %v and %v", values, s.Mean(), s.Std(), mean, std)
	}
}

func TestNoValues(t *testing.T) {
	var s Sums
	if s.Mean() != 0 || s.Std() != 0 {
		t.Errorf("mean %v, deviation %v", s.Mean(), s.Std())
	}
}

func TestResourcesJSON(t *testing.T) {
	full := Resources{MilliCPU: 16_000, Memory: 64 << 30, GPU: 2, Pods: 110}
	for text, want := range map[string]Resources{
		`{"cpu":"16","memory":"64Gi","gpu":2,"pods":110}`:            full,
		`{"cpu":16,"memory":68719476736,"gpu":2,"pods":110}`:         full,
		`{"MilliCPU":16000,"Memory":68719476736,"GPU":2,"Pods":110}`: full,
		`{"cpu":"500m"}`:   {MilliCPU: 500},
		`{"gpuMilli":460}`: {GPUMilli: 460},
		`{"cpu":1.5}`:      {MilliCPU: 1500},
		`{}`:               {},
	} {
		var got Resources
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, say := range map[string]string{
		`{"cpus":1}`:            `unknown field "cpus"`,
		`{"cpu":"-1"}`:          `cpu: "-1" is negative`,
		`{"memory":"1GB"}`:      `memory: "1GB" is not an amount of memory`,
		`{"gpu":-1}`:            "gpu: -1 is negative",
		`{"gpuMilli":-1}`:       "gpuMilli: -1 is negative",
		`{"milliCPU":-1}`:       "milliCPU: -1 is negative",
		`{"pods":1.5}`:          "pods",
		`{"cpu":"x","pods":-1}`: "pods: -1 is negative",
		`[]`:                    "cannot unmarshal array",
	} {
		r := full
		if err := json.Unmarshal([]byte(text), &r); err == nil || !strings.Contains(err.Error(), say) || r != full {
			t.Errorf("%s: %+v, %v, want %q", text, r, err, say)
		}
	}
	if b, err := json.Marshal(full); err != nil || string(b) != `{"cpu":"16","memory":"64Gi","gpu":2,"pods":110}` {
		t.Errorf("%s, %v", b, err)
	}
}

func TestResourcesJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Resources{
			MilliCPU: rapid.Int64Range(0, MaxMilliCPU).Draw(t, "cpu"), Memory: rapid.Int64Range(0, MaxMemory).Draw(t, "memory"),
			GPU: rapid.Int64Range(0, 100).Draw(t, "gpu"), GPUMilli: rapid.Int64Range(0, 999).Draw(t, "milli"),
			Pods: rapid.Int64Range(0, 1000).Draw(t, "pods"),
		}
		b := fatal.Value(json.Marshal(r))(t)
		var again Resources
		if err := json.Unmarshal(b, &again); err != nil || again != r {
			t.Fatalf("%+v became %s became %+v: %v", r, b, again, err)
		}
	})
}

// links has a path of its own for a and c, and a limit on all links.
var links = Links{
	Node: Hop{Latency: 1, Bandwidth: 100}, Rack: Hop{Latency: 2, Bandwidth: 50}, Zone: Hop{Latency: 5, Price: 1, Bandwidth: 25},
	Between: []Between{{Zones: [2]string{"a", "c"}, Latency: 10, Price: 3}},
}

// places are nodes in zones a, b and c: two in one rack and one in another of a, and one in b and in c.
func places() []*Node {
	return []*Node{{Zone: "a", Rack: "0"}, {Zone: "a", Rack: "0"}, {Zone: "a", Rack: "1"}, {Zone: "b", Rack: "0"}, {Zone: "c"}}
}

func TestPath(t *testing.T) {
	n := NewNetwork(links, places())
	for _, c := range []struct {
		a, b int32
		want Path
	}{
		{0, 0, Path{}},
		{0, 1, Path{1, 0, 0.1}},
		{1, 2, Path{2, 0, 0.2}},
		{2, 3, Path{5, 1, 0.5}},
		{0, 4, Path{10, 3, 1}},
		{3, 4, Path{5, 1, 0.5}},
	} {
		for _, got := range []Path{n.Path(c.a, c.b), n.Path(c.b, c.a)} {
			if got != c.want {
				t.Errorf("%d and %d: %+v, want %+v", c.a, c.b, got, c.want)
			}
		}
	}
	dear := links
	dear.Distance = byPrice
	if got := NewNetwork(dear, places()).Path(2, 3).Distance; got != 1./3 {
		t.Errorf("distance by price %v, want a third", got)
	}
}

func TestTraffic(t *testing.T) {
	tr := NewTraffic(NewNetwork(links, places()))
	if got := tr.Links(); got != 12 {
		t.Errorf("%d links, want 5 of nodes, 4 of racks and 3 of zones", got)
	}
	tr.Place(0, []Peer{{Row: 0, Rate: 10}, {Row: 1, Rate: 20}, {Row: 4, Rate: 30}})
	want := Flows{Rate: 60, Distance: 32, Latency: 320, Price: 90, SameNode: 10, Zones: 30, Excess: 10, Over: 2}
	if d := cmp.Diff(want, tr.Flows, cmpopts.EquateApprox(0, 1e-9)); d != "" {
		t.Error(d)
	}
	for link, use := range map[int]float64{0: 0.5, 1: 0.2, 2: 0, tr.Network.RackLink(1): 0.6, tr.Network.RackLink(2): 0,
		tr.Network.ZoneLink(2): 1.2} {
		if got := tr.Use(link); math.Abs(got-use) > 1e-9 {
			t.Errorf("link %d carries %v of its bandwidth, want %v", link, got, use)
		}
	}
	if got := tr.MeanDistance(); math.Abs(got-32./60) > 1e-9 {
		t.Errorf("mean distance %v", got)
	}
}

// Pods come and go in any order: the flows are the sums over the pairs of running pods, and nothing is left in the end.
func TestTrafficInvariants(t *testing.T) {
	type pod struct {
		row   int32
		peers []Peer
	}
	rapid.Check(t, func(t *rapid.T) {
		n := NewNetwork(links, places())
		tr := NewTraffic(n)
		var running []pod
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			if len(running) > 0 && rapid.Bool().Draw(t, "leaves") {
				i := rapid.IntRange(0, len(running)-1).Draw(t, "who")
				tr.Remove(running[i].row, running[i].peers)
				running = append(running[:i], running[i+1:]...)
				continue
			}
			p := pod{row: rapid.Int32Range(0, 4).Draw(t, "row")}
			for range rapid.IntRange(0, 4).Draw(t, "peers") {
				p.peers = AddPeer(p.peers, Peer{
					Row: rapid.Int32Range(0, 4).Draw(t, "peer"), Pods: 1, Rate: float64(rapid.IntRange(1, 60).Draw(t, "rate")),
				})
			}
			tr.Place(p.row, p.peers)
			running = append(running, p)
		}
		again := NewTraffic(n)
		for _, p := range running {
			again.Place(p.row, p.peers)
		}
		if d := cmp.Diff(again.Flows, tr.Flows, cmpopts.EquateApprox(0, 1e-6)); d != "" {
			t.Fatal(d)
		}
		var copied Traffic
		tr.CopyTo(&copied)
		for _, p := range running {
			copied.Remove(p.row, p.peers)
		}
		if copied.Flows != (Flows{}) {
			t.Fatalf("left over: %+v", copied.Flows)
		}
		if d := cmp.Diff(again.Flows, tr.Flows, cmpopts.EquateApprox(0, 1e-6)); d != "" {
			t.Fatalf("the copy changed the original: %s", d)
		}
	})
}

func TestAddPeer(t *testing.T) {
	var peers []Peer
	for _, p := range []Peer{{3, 1, 30}, {0, 1, 10}, {3, 2, 20}, {1, 1, 40}} {
		peers = AddPeer(peers, p)
	}
	if d := cmp.Diff([]Peer{{0, 1, 10}, {1, 1, 40}, {3, 3, 50}}, peers); d != "" {
		t.Fatal(d)
	}
}

func TestLinksValidate(t *testing.T) {
	fatal.If(t, links.Validate([]string{"a", "b", "c"}))
	for want, spoil := range map[string]func(*Links){
		`distance: "hops" is not known; choose latency or price`:  func(l *Links) { l.Distance = "hops" },
		"node.latency: NaN is not 0 to 100000":                    func(l *Links) { l.Node.Latency = math.NaN() },
		"rack.price: -1 is not 0 to":                              func(l *Links) { l.Rack.Price = -1 },
		"zone.bandwidth: +Inf is not 0 to":                        func(l *Links) { l.Zone.Bandwidth = math.Inf(1) },
		`between[0].zones: no node is in a zone "d"; there are [`: func(l *Links) { l.Between = []Between{{Zones: [2]string{"a", "d"}}} },
		`between[0].zones: "a" is named twice`:                    func(l *Links) { l.Between = []Between{{Zones: [2]string{"a", "a"}}} },
		"all distances are 0; give a latency":                     func(l *Links) { *l = Links{} },
		"all distances are 0; give a price":                       func(l *Links) { *l = Links{Distance: byPrice, Zone: Hop{Latency: 1}} },
	} {
		l := links
		spoil(&l)
		if err := l.Validate([]string{"a", "b", "c"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

// Nearest finds as few groups as there are, for every set of devices.
func TestNearestIsLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "cards")
		values := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), n, n).Draw(t, "values")
		from := DeviceSet(rapid.Uint64Range(1, 1<<n-1).Draw(t, "from"))
		k := rapid.IntRange(1, from.Len()).Draw(t, "count")
		on, spans := Nearest([][]string{values}, from, k, 0)
		if on.Len() != k || on&^from != 0 {
			t.Fatalf("%b of %b", on, from)
		}
		least := n
		for set := DeviceSet(1); set < 1<<n; set++ {
			if set.Len() == k && set&^from == 0 {
				least = min(least, len(groups(values, set)))
			}
		}
		if got := len(groups(values, on)); got != least || spans[0] != least {
			t.Fatalf("%d groups (%v), but %d do", got, spans, least)
		}
	})
}
