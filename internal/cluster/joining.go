package cluster

import "slices"

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
