package traffic

import (
	"slices"

	"gnnsched/internal/cluster"
)

// sums holds what the running pods exchange, summed up by link. What the pods that talk to a workload exchange with its pods is the
// product of two sums: of what each sends to one pod of it, and of its pods. It is added or taken away at once, in a time that grows with
// the nodes of both sides, not with the pairs of nodes.
type sums struct {
	network *cluster.Network
	load    []amount // by link

	all                          amount   // between all pairs of pods
	sameNode, sameRack, sameZone amount   // of it
	between                      []amount // by the pairs of Hops.Between

	// For a while:
	sent []amount // by link: what the pods below it send to one pod
	pods []int32  // by link: pods below it
	used []int32  // links with either
	has  []bool   // by link: whether it is one of used
}

func newSums(n *cluster.Network) *sums {
	links := n.Links()
	return &sums{
		network: n, load: make([]amount, links), between: make([]amount, len(n.Hops().Between)),
		sent: make([]amount, links), pods: make([]int32, links), has: make([]bool, links),
	}
}

// note adds what the pods below a link send to one pod, and pods that receive it.
func (s *sums) note(link int, sent amount, pods int32) {
	if !s.has[link] {
		s.has[link] = true
		s.used = append(s.used, int32(link))
	}
	s.sent[link] = s.sent[link].plus(sent)
	s.pods[link] += pods
}

// spread notes the same for a node and for the rack and the zone that it is in.
func (s *sums) spread(row int32, sent amount, pods int32) {
	s.note(int(row), sent, pods)
	s.note(s.network.RackLink(row), sent, pods)
	s.note(s.network.ZoneLink(row), sent, pods)
}

// forget clears what was noted.
func (s *sums) forget() {
	for _, l := range s.used {
		s.sent[l], s.pods[l], s.has[l] = amount{}, 0, false
	}
	s.used = s.used[:0]
}

// change adds what was noted, or takes it away, and forgets it. sent and pods are the sums over all nodes, and self what pods would
// send to themselves.
func (s *sums) change(sent amount, pods int32, self amount, change func(a, b amount) amount) {
	n := s.network
	nodes, racks := n.Nodes(), n.Nodes()+n.Racks()
	for _, l := range s.used {
		below := s.sent[l].times(s.pods[l])
		crosses := s.sent[l].times(pods).plus(sent.times(s.pods[l])).minus(below).minus(below)
		s.load[l] = change(s.load[l], crosses)
		switch {
		case int(l) < nodes:
			s.sameNode = change(s.sameNode, below)
		case int(l) < racks:
			s.sameRack = change(s.sameRack, below)
		default:
			s.sameZone = change(s.sameZone, below)
		}
	}
	for i, b := range n.Hops().Between {
		x, y := racks+int(b.A), racks+int(b.B)
		s.between[i] = change(s.between[i], s.sent[x].times(s.pods[y]).plus(s.sent[y].times(s.pods[x])))
	}
	s.all = change(s.all, sent.times(pods).minus(self))
	s.sameNode, s.sameRack, s.sameZone = change(s.sameNode, amount{}.minus(self)), change(s.sameRack, amount{}.minus(self)), change(s.sameZone,
		amount{}.minus(self))
	s.forget()
}

// peers appends what was noted by node, by ascending row, and forgets it.
func (s *sums) peers(out []cluster.Peer) []cluster.Peer {
	slices.Sort(s.used)
	for _, row := range s.used {
		out = append(out, cluster.Peer{Row: row, Pods: s.pods[row], Rate: s.sent[row].rate()})
	}
	s.forget()
	return out
}

// publish makes the traffic that of the sums.
func (s *sums) publish(t *cluster.Traffic) {
	hops := s.network.Hops()
	rack, zone, far := s.sameRack.minus(s.sameNode), s.sameZone.minus(s.sameRack), s.all.minus(s.sameZone)
	f := cluster.Flows{Rate: s.all.rate(), SameNode: s.sameNode.rate(), Zones: far.rate()}
	pass := func(rate amount, over cluster.Path) {
		r := rate.rate()
		f.Distance += r * over.Distance
		f.Latency += r * over.Latency
		f.Price += r * over.Price
	}
	pass(rack, hops.Rack)
	pass(zone, hops.Zone)
	for i, b := range hops.Between {
		pass(s.between[i], b.Path)
		far = far.minus(s.between[i])
	}
	pass(far, hops.Far)
	t.Assume(f, func(link int) float64 { return s.load[link].rate() })
}
