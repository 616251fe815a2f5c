package cluster

import "slices"

// Peer is the traffic between the pending pod and the running pods of one node, once the pending pod runs.
type Peer struct {
	Row  int32   // of the node in the snapshot
	Pods int32   // number of pods there that the pending pod talks to
	Rate float64 // bytes a second, both directions together
}

// Flows are sums over the pairs of running pods that talk to each other.
type Flows struct {
	Rate     float64 // bytes a second
	Distance float64 // bytes a second times Path.Distance
	Latency  float64 // bytes a second times milliseconds
	Price    float64 // bytes a second times the price of a gigabyte
	SameNode float64 // bytes a second that need no link
	Zones    float64 // bytes a second between zones
	Excess   float64 // sum over the links of the bytes a second over their bandwidth
	Over     int     // links with an excess
}

// Traffic is the traffic among the running pods of a cluster, and the load of each link. All nodes of a cluster share
// one. It is not safe for concurrent use.
type Traffic struct {
	Network *Network
	Flows
	load []float64 // by link: bytes a second
}

// NewTraffic returns the traffic of a network without pods.
func NewTraffic(n *Network) *Traffic {
	return &Traffic{Network: n, load: make([]float64, len(n.bandwidth))}
}

// Links returns the number of links that have a limit.
func (t *Traffic) Links() (limited int) {
	for _, b := range t.Network.bandwidth {
		if b > 0 {
			limited++
		}
	}
	return limited
}

// Use returns the load of a link as a fraction of its bandwidth; 0 without a limit.
func (t *Traffic) Use(link int) float64 {
	if b := t.Network.bandwidth[link]; b > 0 {
		return t.load[link] / b
	}
	return 0
}

// Place adds the traffic of a pod on a node with its peers.
func (t *Traffic) Place(row int32, peers []Peer) { t.change(row, peers, 1) }

// Remove undoes Place.
func (t *Traffic) Remove(row int32, peers []Peer) { t.change(row, peers, -1) }

func (t *Traffic) change(row int32, peers []Peer, sign float64) {
	n := t.Network
	for _, p := range peers {
		rate := sign * p.Rate
		t.Rate += rate
		if p.Row == row {
			t.SameNode += rate
			continue
		}
		path := n.Path(row, p.Row)
		t.Distance += rate * path.Distance
		t.Latency += rate * path.Latency
		t.Price += rate * path.Price
		t.carry(int(row), rate)
		t.carry(int(p.Row), rate)
		if n.rack[row] == n.rack[p.Row] {
			continue
		}
		t.carry(n.RackLink(row), rate)
		t.carry(n.RackLink(p.Row), rate)
		if n.Zone(row) == n.Zone(p.Row) {
			continue
		}
		t.Zones += rate
		t.carry(n.ZoneLink(row), rate)
		t.carry(n.ZoneLink(p.Row), rate)
	}
	if t.Rate == 0 { // rates are whole numbers; the rest is rounding error
		t.Flows = Flows{}
	}
}

// Assume replaces the traffic by sums from elsewhere: all flows but Excess and Over, and the load of each link in bytes a second.
func (t *Traffic) Assume(f Flows, load func(link int) float64) {
	t.Flows = f
	t.Excess, t.Over = 0, 0
	for link, limit := range t.Network.bandwidth {
		t.load[link] = load(link)
		if over := t.load[link] - limit; limit > 0 && over > 0 {
			t.Excess += over
			t.Over++
		}
	}
}

// carry adds to the load of a link.
func (t *Traffic) carry(link int, rate float64) {
	limit := t.Network.bandwidth[link]
	before := t.load[link] - limit
	t.load[link] += rate
	if limit == 0 {
		return
	}
	after := t.load[link] - limit
	t.Excess += max(after, 0) - max(before, 0)
	switch {
	case before <= 0 && after > 0:
		t.Over++
	case before > 0 && after <= 0:
		t.Over--
	}
}

// CopyTo makes dst equal traffic of the same network. It uses dst's memory again.
func (t *Traffic) CopyTo(dst *Traffic) {
	load := append(dst.load[:0], t.load...)
	*dst = *t
	dst.load = load
}

// MeanDistance returns the mean distance that a byte goes, 0 to 1; 0 without traffic.
func (f *Flows) MeanDistance() float64 { return share(f.Distance, f.Rate) }

// ExcessShare returns Excess as a share of the traffic; 0 without traffic. A byte may be over the bandwidth of up to six
// links.
func (f *Flows) ExcessShare() float64 { return share(f.Excess, f.Rate) }

func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return max(part/whole, 0)
}

// TrafficOf returns the traffic of a cluster; nil if it is not known.
func TrafficOf(nodes []*Node) *Traffic {
	if len(nodes) == 0 {
		return nil
	}
	return nodes[0].Traffic
}

// AddPeer adds pods of a node to a list of peers, which is sorted by row.
func AddPeer(peers []Peer, p Peer) []Peer {
	i, found := slices.BinarySearchFunc(peers, p.Row, func(x Peer, row int32) int { return int(x.Row - row) })
	if !found {
		return slices.Insert(peers, i, p)
	}
	peers[i].Pods += p.Pods
	peers[i].Rate += p.Rate
	return peers
}
