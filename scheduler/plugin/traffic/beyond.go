package traffic

import "gnnsched/internal/cluster"

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
