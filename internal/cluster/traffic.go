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

// Use returns the load of a link with more bytes a second, as a fraction of its bandwidth; 0 without a limit.
func (t *Traffic) Use(link int, more float64) float64 {
	if b := t.Network.bandwidth[link]; b > 0 {
		return (t.load[link] + more) / b
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

// Joining computes the traffic that a pod would add on each of the nodes. Begin sums up once what the nodes have in common, so a node costs
// one step for each rack that runs peers, and not one for each peer. The zero value is ready for Begin.
type Joining struct {
	traffic *Traffic
	peers   []Peer
	rate    float64
	over    float64 // bytes over the bandwidth on the links of all peers, if the pod shared none of them
	racks   []place
	zones   []place
	near    []int32 // racks that run peers
}

// place sums up the peers in a rack or a zone.
type place struct {
	rate float64 // bytes a second of the peers there
	over float64 // part of Joining.over
	far  float64 // of a rack: sum over the peers of rate times distance, as if none was on the pod's node
	is   bool    // far is known
}

// Added is the traffic that a pod would add if it ran on a node. Node, Rack and Zone are shares of the bytes that it exchanges.
type Added struct {
	Node, Rack, Zone float64 // bytes that stay on the node, in its rack outside the node, and in its zone outside the rack
	Distance         float64 // mean Path.Distance
	Excess           float64 // rise of Flows.Excess relative to the pod's traffic: up to 6
}

// Begin sums up the pod's exchange with its peers, which are sorted by row.
func (j *Joining) Begin(t *Traffic, peers []Peer) {
	n := t.Network
	j.traffic, j.peers, j.rate, j.over = t, peers, 0, 0
	j.racks, j.near = cleared(j.racks, len(n.zone)), j.near[:0]
	j.zones = cleared(j.zones, len(n.bandwidth)-len(n.rack)-len(n.zone))
	for _, p := range peers {
		if p.Rate <= 0 {
			continue
		}
		rack := n.rack[p.Row]
		if j.racks[rack].rate == 0 {
			j.near = append(j.near, rack)
		}
		j.racks[rack].rate += p.Rate
		j.zones[n.zone[rack]].rate += p.Rate
		j.rate += p.Rate
		j.over += t.rise(int(p.Row), p.Rate)
	}
	for _, r := range j.near {
		j.racks[r].over = t.rise(len(n.rack)+int(r), j.racks[r].rate)
		j.over += j.racks[r].over
	}
	for z := range j.zones {
		j.zones[z].over = t.rise(len(n.rack)+len(n.zone)+z, j.zones[z].rate)
		j.over += j.zones[z].over
	}
}

// Rate returns the bytes a second that the pod exchanges.
func (j *Joining) Rate() float64 { return j.rate }

// At returns the traffic that the pod would add on a node; zero if it has no peers.
func (j *Joining) At(row int32) (a Added) {
	if j.rate <= 0 {
		return a
	}
	t, n := j.traffic, j.traffic.Network
	rack := &j.racks[n.rack[row]]
	zone := &j.zones[n.Zone(row)]
	over := j.over - rack.over - zone.over
	var here float64
	if i, found := slices.BinarySearchFunc(j.peers, row, func(p Peer, row int32) int { return int(p.Row - row) }); found {
		here = j.peers[i].Rate
		over -= t.rise(int(row), here)
	}
	over += t.rise(int(row), j.rate-here) + t.rise(n.RackLink(row), j.rate-rack.rate) + t.rise(n.ZoneLink(row), j.rate-zone.rate)
	if !rack.is {
		rack.is, rack.far = true, j.far(n.rack[row])
	}
	within := n.paths[int(n.rack[row])*len(n.zone)+int(n.rack[row])].Distance
	return Added{
		Node: share(here, j.rate), Rack: share(rack.rate-here, j.rate), Zone: share(zone.rate-rack.rate, j.rate),
		Distance: share(rack.far-here*within, j.rate), Excess: share(over, j.rate),
	}
}

// far returns the sum over the peers of their rates times their distances from a rack.
func (j *Joining) far(rack int32) (sum float64) {
	n := j.traffic.Network
	paths := n.paths[int(rack)*len(n.zone):]
	for _, r := range j.near {
		sum += j.racks[r].rate * paths[r].Distance
	}
	return sum
}

// rise returns the increase of a link's excess over its bandwidth, in bytes a second, for more bytes a second.
func (t *Traffic) rise(link int, more float64) float64 {
	limit := t.Network.bandwidth[link]
	if limit == 0 {
		return 0
	}
	return max(t.load[link]+more-limit, 0) - max(t.load[link]-limit, 0)
}

// cleared returns places of zero value, in the memory of old ones.
func cleared(old []place, count int) []place {
	old = slices.Grow(old[:0], count)[:count]
	clear(old)
	return old
}
