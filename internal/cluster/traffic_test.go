package cluster

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

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
		if got := tr.Use(link, 0); math.Abs(got-use) > 1e-9 {
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

func TestJoining(t *testing.T) {
	traffic := NewTraffic(NewNetwork(links, places()))
	var j Joining
	j.Begin(traffic, []Peer{{0, 1, 10}, {1, 1, 40}, {3, 3, 50}})
	for row, want := range map[int32]Added{
		0: {Node: 0.1, Rack: 0.4, Distance: 0.29, Excess: 0.5},           // 25 over the bandwidth on the way out of each zone
		2: {Zone: 0.5, Distance: 0.35, Excess: 0.5 + 0.5},                // 50 over the bandwidth of its rack as well
		3: {Node: 0.5, Distance: 0.25, Excess: 0.5},                      // likewise
		4: {Distance: 0.5*1 + 0.5*0.5, Excess: 0.25 + 0.25 + 0.75 + 0.5}, // out of both zones, into the third, and its rack
	} {
		if d := cmp.Diff(want, j.At(row), cmpopts.EquateApprox(0, 1e-9)); d != "" {
			t.Errorf("row %d: %s", row, d)
		}
	}
	j.Begin(traffic, nil)
	if got := j.At(0); got != (Added{}) || j.Rate() != 0 {
		t.Errorf("without peers %+v, %v", got, j.Rate())
	}
}

// Joining computes the same traffic that Place adds, on every node and after any other pods.
func TestJoiningIsWhatPlaceAdds(t *testing.T) {
	var j Joining // used again
	rapid.Check(t, func(t *rapid.T) {
		tr := NewTraffic(NewNetwork(links, places()))
		draw := func() (peers []Peer) {
			for range rapid.IntRange(0, 6).Draw(t, "peers") {
				peers = AddPeer(peers, Peer{Row: rapid.Int32Range(0, 4).Draw(t, "peer"), Pods: 1, Rate: float64(rapid.IntRange(0, 60).Draw(t, "rate"))})
			}
			return peers
		}
		for range rapid.IntRange(0, 8).Draw(t, "pods") {
			tr.Place(rapid.Int32Range(0, 4).Draw(t, "row"), draw())
		}
		peers := draw()
		j.Begin(tr, peers)
		for row := range int32(len(places())) {
			var placed Traffic
			tr.CopyTo(&placed)
			placed.Place(row, peers)
			rate := max(placed.Rate-tr.Rate, 1)
			got := j.At(row)
			want := Added{
				Node: (placed.SameNode - tr.SameNode) / rate, Distance: (placed.Distance - tr.Distance) / rate,
				Excess: (placed.Excess - tr.Excess) / rate,
				Rack:   got.Rack, Zone: got.Zone,
			}
			if outside := (placed.Zones - tr.Zones) / rate; rate > 1 && math.Abs(1-got.Node-got.Rack-got.Zone-outside) > 1e-9 {
				t.Fatalf("row %d: %v leaves the zone, %+v", row, outside, got)
			}
			if d := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); d != "" {
				t.Fatalf("row %d: %s", row, d)
			}
		}
	})
}

func TestLinksValidate(t *testing.T) {
	if err := links.Validate([]string{"a", "b", "c"}); err != nil {
		t.Fatal(err)
	}
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
