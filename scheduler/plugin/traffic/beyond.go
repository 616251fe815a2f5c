package traffic

import "gnnsched/internal/cluster"

// maxFlows is the largest number of flows of a workload that leads further. One with more, such as a name server, is a partner of
// all and says nothing about where a pod belongs. It bounds the time of a decision.
const maxFlows = 64

// mostRate is the highest rate that counts, in bytes a second. It bounds the argument of units.
const mostRate = 1e13

// beyond appends the running pods two steps away from one more pod of a class, by ascending row (cluster.Snapshot.Beyond). A workload
// between them leads to those that name it, though it may have no pods; whom it names itself is known while it has some.
func (m *matrix) beyond(c *class, out []cluster.Peer) []cluster.Peer {
	if len(c.flows)+len(c.of.to)+len(c.of.from) > maxFlows {
		return out
	}
	m.near = m.near[:0]
	for f, w := range c.partners {
		if m.each(f, f.of.size, f.to.size) > 0 && !w.counts {
			w.counts = true
			m.near = append(m.near, w)
		}
	}
	m.far = m.far[:0]
	for f, w := range c.partners {
		if each := m.each(f, f.of.size, f.to.size); each > 0 {
			m.reach(w, float64(each)*unit*float64(w.size))
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
	if w.flows() <= maxFlows {
		for _, f := range w.to {
			m.meet(f, f.to)
		}
		for _, f := range w.from {
			m.meet(f, f.of)
		}
		for _, c := range w.classes {
			for _, f := range c.flows {
				m.meet(f, f.to)
			}
		}
	}
	var pods int32
	for _, far := range m.met {
		pods += far.pods
	}
	for _, far := range m.met {
		far.counts = false
		if far.reached == (amount{}) {
			m.far = append(m.far, far)
		}
		far.reached = far.reached.plus(product(units(min(rate/float64(pods), mostRate)), 1))
	}
}

// meet makes a workload at the other end of a flow one that is reached, once.
func (m *matrix) meet(f *flow, far *workload) {
	if far.pods > 0 && !far.counts && m.each(f, f.of.size, f.to.size) > 0 {
		far.counts = true
		m.met = append(m.met, far)
	}
}

// flows returns the number of flows of a workload; a flow to itself counts twice.
func (w *workload) flows() int {
	count := len(w.from) + len(w.to)
	for _, c := range w.classes {
		count += len(c.flows)
	}
	return count
}

// partners yields the flows of a pod of the class, and the workload at the other end of each.
func (c *class) partners(yield func(*flow, *workload) bool) {
	for _, flows := range [][]*flow{c.flows, c.of.to} {
		for _, f := range flows {
			if !yield(f, f.to) {
				return
			}
		}
	}
	for _, f := range c.of.from {
		if !yield(f, f.of) {
			return
		}
	}
}
