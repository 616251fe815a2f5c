package traffic

import (
	"maps"
	"math"
	"math/bits"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"

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

// unit is the least rate between two pods that counts, in bytes a second.
const unit = 1.0 / (1 << 20)

// units returns a rate of at most 1e13 bytes a second as a number of units: whole bytes, or, below one byte, at least one unit.
func units(rate float64) uint64 {
	switch {
	case rate >= 1:
		return uint64(math.Round(rate)) << 20
	case rate > 0:
		return max(uint64(math.Round(rate/unit)), 1)
	}
	return 0
}

// amount is a number of units of 128 bits. Sums of it are exact in any order, and so is taking away what was added. The
// largest, of maxPairs pairs of workloads with maxRate each, has less than 80 bits.
type amount struct{ high, low uint64 }

// product returns a number of units for each of n.
func product(each uint64, n int32) amount {
	high, low := bits.Mul64(each, uint64(n))
	return amount{high, low}
}

func (a amount) times(n int32) amount {
	p := product(a.low, n)
	p.high += a.high * uint64(n)
	return p
}

func (a amount) plus(b amount) amount {
	low, carry := bits.Add64(a.low, b.low, 0)
	high, _ := bits.Add64(a.high, b.high, carry)
	return amount{high, low}
}

func (a amount) minus(b amount) amount {
	low, borrow := bits.Sub64(a.low, b.low, 0)
	high, _ := bits.Sub64(a.high, b.high, borrow)
	return amount{high, low}
}

// rate returns bytes a second.
func (a amount) rate() float64 { return (float64(a.high)*(1<<64) + float64(a.low)) * unit }

// maxFlows is the largest number of flows of a workload that leads further. One with more, such as a name server, is a partner of
// all and says nothing about where a pod belongs. It bounds the time of a decision.
const maxFlows = 64

// beyond appends the running pods two steps away from one more pod of a workload, by ascending row (cluster.Snapshot.Beyond). A workload
// between them may have no pods.
func (m *matrix) beyond(w *workload, out []cluster.Peer) []cluster.Peer {
	if w.flows() > maxFlows {
		return out
	}
	m.near = m.near[:0]
	for f, other := range w.partners {
		if each(f, f.of.size, f.to.size) > 0 && !other.counts {
			other.counts = true
			m.near = append(m.near, other)
		}
	}
	m.far = m.far[:0]
	for f, other := range w.partners {
		if each := each(f, f.of.size, f.to.size); each > 0 {
			m.reach(other, float64(each)*unit*float64(other.size))
		}
	}
	for _, w := range m.near {
		w.counts = false
	}
	for _, far := range m.far { // once each, however many partners lead to it
		for _, a := range far.at {
			m.sums.note(int(a.row), far.reached.times(a.pods), a.pods)
		}
		far.reached = amount{}
	}
	return m.sums.peers(out)
}

// reach divides a rate among the pods that a workload leads to, but for those of workloads that count.
func (m *matrix) reach(w *workload, rate float64) {
	m.met = m.met[:0]
	var pods int32
	if w.flows() <= maxFlows {
		for f, far := range w.partners {
			if far.pods > 0 && !far.counts && each(f, f.of.size, f.to.size) > 0 {
				far.counts = true
				m.met = append(m.met, far)
				pods += far.pods
			}
		}
	}
	for _, far := range m.met {
		far.counts = false
		if far.reached == (amount{}) {
			m.far = append(m.far, far)
		}
		far.reached = far.reached.plus(product(units(min(rate/float64(pods), maxRate)), 1))
	}
}

// flows returns the number of flows of a workload; a flow to itself counts twice.
func (w *workload) flows() int { return len(w.from) + len(w.to) }

// maxChanged is the largest number of workloads whose change is remembered one by one, for a profile that decides
// nothing.
const maxChanged = 10_000

// sizes counts the pods of each workload that wait or run. It is safe for concurrent use.
type sizes struct {
	mu      sync.Mutex
	pods    map[key]int32
	changed map[key]bool // since the last drain; nil if there are too many
}

// change counts now instead of old; each may be nil.
func (s *sizes) change(old, now *v1.Pod, _ bool) {
	before, was := counted(old)
	after, is := counted(now)
	if was == is && before == after {
		return // such as a new status
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if was {
		s.add(before, -1)
	}
	if is {
		s.add(after, 1)
	}
}

// counted returns the workload of a pod that has not finished.
func counted(p *v1.Pod) (k key, counts bool) {
	if p == nil || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
		return key{}, false
	}
	return keyOf(p), true
}

func (s *sizes) add(k key, pods int32) {
	if s.pods[k] += pods; s.pods[k] == 0 {
		delete(s.pods, k)
	}
	if s.changed != nil {
		s.changed[k] = true
	}
	if len(s.changed) > maxChanged {
		s.changed = nil
	}
}

// of returns the number of pods of a workload.
func (s *sizes) of(k key) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[k]
}

// drain returns the workloads whose numbers have changed since the last call; all is true if there were too many to
// remember.
func (s *sizes) drain() (changed []key, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil && len(s.changed) == 0 {
		return nil, false
	}
	changed, all = slices.Collect(maps.Keys(s.changed)), s.changed == nil
	s.changed = map[key]bool{}
	return changed, all
}
