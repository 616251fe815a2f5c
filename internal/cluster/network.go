package cluster

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"gnnsched/internal/exit"
)

// Hop holds the cost of sending data over one kind of link.
type Hop struct {
	Latency   float64 `json:"latency"`             // milliseconds between two nodes at that distance
	Price     float64 `json:"price,omitempty"`     // of a gigabyte, in any currency
	Bandwidth float64 `json:"bandwidth,omitempty"` // bytes a second of each link, both directions together; 0: not limited
}

// Between has a latency and a price of its own for two zones, in either direction.
type Between struct {
	Zones   [2]string `json:"zones"`
	Latency float64   `json:"latency"`
	Price   float64   `json:"price,omitempty"`
}

// The values of a distance.
const (
	byLatency = "latency"
	byPrice   = "price"
)

// Links describes a network of nodes in racks in zones. Pods of one node exchange data without any link.
type Links struct {
	// Distance is the measure of the distance between two nodes: byLatency (the default) or byPrice.
	Distance string `json:"distance,omitempty"`

	Node Hop `json:"node"` // between nodes of a rack, over the links of both nodes
	Rack Hop `json:"rack"` // between racks of a zone, over the links of nodes and racks
	Zone Hop `json:"zone"` // between zones, over the links of nodes, racks and zones

	Between []Between `json:"between,omitempty"` // pairs of zones that differ from Zone
}

// The bounds of a hop.
const (
	maxLatency   = 1e5  // milliseconds
	maxPrice     = 1e4  // of a gigabyte
	maxBandwidth = 1e13 // bytes a second
)

// Validate returns every fault, each with its field. zones are the names that Between may use; nil: any.
func (l *Links) Validate(zones []string) error {
	bad := &exit.Faults{}
	check := func(field string, x, most float64) {
		if !(x >= 0 && x <= most) { // also refuses NaN
			bad.Add("%s: %v is not 0 to %g", field, x, most)
		}
	}
	bad.If(l.Distance != "" && l.Distance != byLatency && l.Distance != byPrice,
		"distance: %q is not known; choose %s or %s", l.Distance, byLatency, byPrice)
	farthest := 0.0
	for _, x := range []struct {
		field string
		hop   Hop
	}{{"node", l.Node}, {"rack", l.Rack}, {"zone", l.Zone}} {
		check(x.field+".latency", x.hop.Latency, maxLatency)
		check(x.field+".price", x.hop.Price, maxPrice)
		check(x.field+".bandwidth", x.hop.Bandwidth, maxBandwidth)
		farthest = max(farthest, l.counts(x.hop.Latency, x.hop.Price))
	}
	for i, b := range l.Between {
		at := fmt.Sprintf("between[%d]", i)
		check(at+".latency", b.Latency, maxLatency)
		check(at+".price", b.Price, maxPrice)
		farthest = max(farthest, l.counts(b.Latency, b.Price))
		for _, z := range b.Zones {
			bad.If(z == "" || zones != nil && !slices.Contains(zones, z), "%s.zones: no node is in a zone %q; there are %q", at, z, zones)
		}
		bad.If(b.Zones[0] == b.Zones[1], "%s.zones: %q is named twice; nodes of one zone are a hop of rack or node apart", at, b.Zones[0])
	}
	bad.If(farthest == 0, "all distances are 0; give a %s to node, rack or zone", l.counted())
	return bad.Err()
}

// counted names the unit of a distance.
func (l *Links) counted() string { return cmp.Or(l.Distance, byLatency) }

// counts returns the distance of a latency and a price.
func (l *Links) counts(latency, price float64) float64 {
	if l.counted() == byPrice {
		return price
	}
	return latency
}

// Path is the distance of two nodes.
type Path struct {
	Latency  float64 // milliseconds
	Price    float64 // of a gigabyte
	Distance float64 // latency or price, as Links says, relative to the farthest path that Links has; 0 to 1
}

// Network holds the places of a cluster's nodes and their distances. It is immutable.
type Network struct {
	rack      []int32 // by row of the node
	zone      []int32 // by rack
	paths     []Path  // rack × rack; between nodes of one rack on the diagonal
	hops      Hops
	bandwidth []float64
}

// Hops are the paths that a network has.
type Hops struct {
	Rack    Path       // between nodes of one rack
	Zone    Path       // between racks of one zone
	Far     Path       // between zones, except those in Between
	Between []ZonePath // pairs of zones, each once
}

// ZonePath is the path between two zones.
type ZonePath struct {
	A, B int32 // numbers of the zones
	Path
}

// NewNetwork returns the network of nodes, which stand in the racks and zones that their fields name. Nodes without a
// zone share one, and nodes of a zone without a rack share one.
func NewNetwork(l Links, nodes []*Node) *Network {
	type place struct{ zone, rack string }
	n := &Network{rack: make([]int32, len(nodes))}
	racks, zones := map[place]int32{}, map[string]int32{}
	var names []string // of the zone, by rack
	for i, v := range nodes {
		at := place{v.Zone, v.Rack}
		rack, known := racks[at]
		if !known {
			rack = int32(len(racks))
			racks[at] = rack
			if _, known := zones[v.Zone]; !known {
				zones[v.Zone] = int32(len(zones))
			}
			n.zone, names = append(n.zone, zones[v.Zone]), append(names, v.Zone)
		}
		n.rack[i] = rack
	}
	farthest := max(l.counts(l.Node.Latency, l.Node.Price), l.counts(l.Rack.Latency, l.Rack.Price), l.counts(l.Zone.Latency, l.Zone.Price))
	for _, b := range l.Between {
		farthest = max(farthest, l.counts(b.Latency, b.Price))
	}
	n.hops = Hops{Rack: l.path(true, "", "", farthest), Zone: l.path(false, "", "", farthest), Far: l.of(l.Zone, farthest)}
	known := map[[2]int32]bool{}
	for _, b := range l.Between {
		x, is := zones[b.Zones[0]]
		y, too := zones[b.Zones[1]]
		if pair := [2]int32{min(x, y), max(x, y)}; is && too && !known[pair] {
			known[pair] = true
			n.hops.Between = append(n.hops.Between, ZonePath{pair[0], pair[1], l.path(false, b.Zones[0], b.Zones[1], farthest)})
		}
	}
	for a := range names {
		for b := range names {
			n.paths = append(n.paths, l.path(a == b, names[a], names[b], farthest))
		}
	}
	for _, links := range []struct {
		count int
		hop   Hop
	}{{len(nodes), l.Node}, {len(racks), l.Rack}, {len(zones), l.Zone}} {
		for range links.count {
			n.bandwidth = append(n.bandwidth, links.hop.Bandwidth)
		}
	}
	return n
}

// path returns the path between two different nodes of one rack, or of racks in zones a and b.
func (l *Links) path(sameRack bool, a, b string, farthest float64) Path {
	h := l.Zone
	switch {
	case sameRack:
		h = l.Node
	case a == b:
		h = l.Rack
	default:
		for _, x := range l.Between {
			if x.Zones == [2]string{a, b} || x.Zones == [2]string{b, a} {
				h.Latency, h.Price = x.Latency, x.Price
			}
		}
	}
	return l.of(h, farthest)
}

// of returns the path over a hop.
func (l *Links) of(h Hop, farthest float64) Path {
	return Path{h.Latency, h.Price, l.counts(h.Latency, h.Price) / max(farthest, math.SmallestNonzeroFloat64)}
}

// Nodes returns the number of nodes.
func (n *Network) Nodes() int { return len(n.rack) }

// Links returns the number of links: of the nodes, the racks and the zones, in this order.
func (n *Network) Links() int { return len(n.bandwidth) }

// Racks returns the number of racks.
func (n *Network) Racks() int { return len(n.zone) }

// Hops returns the paths of the network. They must not be changed.
func (n *Network) Hops() *Hops { return &n.hops }

// Rack returns the number of the node's rack, counted over all zones.
func (n *Network) Rack(row int32) int32 { return n.rack[row] }

// Zone returns the number of the node's zone.
func (n *Network) Zone(row int32) int32 { return n.zone[n.rack[row]] }

// Path returns the path between two nodes; the zero Path from a node to itself.
func (n *Network) Path(a, b int32) Path {
	if a == b {
		return Path{}
	}
	return n.paths[int(n.rack[a])*len(n.zone)+int(n.rack[b])]
}

// RackLink and ZoneLink return the links by which data leaves the rack and the zone of a node. The link of the node
// itself has the number of its row.
func (n *Network) RackLink(row int32) int { return len(n.rack) + int(n.rack[row]) }

// ZoneLink is described with RackLink.
func (n *Network) ZoneLink(row int32) int { return len(n.rack) + len(n.zone) + int(n.Zone(row)) }

// Nearest returns k of the given devices that lie in as few groups as possible at the first level, then at the next, and so on, and
// the number of groups at each level. Of equally good groups it takes those with the fewest devices, so that larger ones stay whole, and
// then those with more of the devices of keep. from has k devices or more.
func Nearest(levels [][]string, from DeviceSet, k int, keep DeviceSet) (on DeviceSet, spans []int) {
	if len(levels) == 0 {
		return lowest(from&^keep, k-min(k, (from&keep).Len())) | lowest(from&keep, k), nil
	}
	rest := groups(levels[0], from)
	spans = make([]int, len(levels))
	for k > 0 {
		best := 0
		var first part
		for i, group := range rest {
			next := part{size: group.Len(), fits: group.Len() >= k}
			next.on, next.spans = Nearest(levels[1:], group, min(k, next.size), keep)
			next.kept = (next.on & keep).Len()
			if i == 0 || next.before(first) {
				best, first = i, next
			}
		}
		on |= first.on
		k -= first.on.Len()
		spans[0]++
		for i, n := range first.spans {
			spans[i+1] += n
		}
		rest = slices.Delete(rest, best, best+1)
	}
	return on, spans
}

// part holds the cards that one group gives to a pod.
type part struct {
	on    DeviceSet
	spans []int // groups at each further level
	size  int   // devices of the group
	fits  bool  // the group has the devices that are still needed
	kept  int   // devices of on that were chosen before
}

// before reports whether p is a better part than q.
func (p part) before(q part) bool {
	if p.fits != q.fits {
		return p.fits
	}
	size := cmp.Compare(p.size, q.size)
	if !p.fits { // the largest groups make for the fewest
		return cmp.Or(-size, slices.Compare(p.spans, q.spans), cmp.Compare(q.kept, p.kept)) < 0
	}
	return cmp.Or(slices.Compare(p.spans, q.spans), size, cmp.Compare(q.kept, p.kept)) < 0
}

// groups returns the devices of from with equal values, in the order of the first device of each.
func groups(values []string, from DeviceSet) (out []DeviceSet) {
	at := map[string]int{}
	for rest := from; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(uint64(rest))
		g, known := at[values[i]]
		if !known {
			g = len(out)
			at[values[i]] = g
			out = append(out, 0)
		}
		out[g] |= Device(i)
	}
	return out
}

// lowest returns the n first devices of a set, or all if there are fewer.
func lowest(from DeviceSet, n int) (on DeviceSet) {
	for ; n > 0 && from != 0; n-- {
		on |= from & -from
		from &= from - 1
	}
	return on
}
