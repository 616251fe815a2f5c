package traffic

import (
	"maps"
	"math"
	"slices"

	"gnnsched/internal/cluster"
)

// each returns the rate of one pod of a flow with one other in units, for these sizes of the two workloads. What is measured
// between two workloads, in either direction, counts instead of annotations.
func (m *matrix) each(f *flow, of, to int32) uint64 {
	switch {
	case f.measured:
		return units(f.rate / float64(of) / float64(to))
	case len(m.measured) > 0 && (m.measured[pair{f.of.key, f.to.key}] != nil || m.measured[pair{f.to.key, f.of.key}] != nil):
		return 0
	}
	return units(f.rate / float64(to))
}

// peers appends what one more pod of a class exchanges with the running pods, by ascending row.
func (m *matrix) peers(c *class, out []cluster.Peer) []cluster.Peer {
	size := func(w *workload) int32 {
		if w == c.of {
			return max(w.size, w.pods+1) // it may not have heard of the pod yet
		}
		return w.size
	}
	add := func(f *flow, other *workload, at []place) {
		each := m.each(f, size(f.of), size(f.to))
		if each == 0 {
			return
		}
		for _, a := range at {
			pods := a.pods
			if other.counts {
				pods = 0
			}
			m.sums.note(int(a.row), product(each, a.pods), pods)
		}
	}
	var known []*workload // whose pods count already
	for _, flows := range [][]*flow{c.flows, c.of.to} {
		for _, f := range flows {
			if add(f, f.to, f.to.at); m.each(f, size(f.of), size(f.to)) > 0 {
				f.to.counts = true
				known = append(known, f.to)
			}
		}
	}
	for _, f := range c.of.from {
		add(f, f.of, f.pods.at)
	}
	for _, w := range known {
		w.counts = false
	}
	return m.sums.peers(out)
}

// book adds to the sums, or takes away, what all that talk to a workload exchange with it.
func (m *matrix) book(w *workload, change func(a, b amount) amount) {
	if w.pods == 0 || len(w.from) == 0 {
		return
	}
	var all, self amount
	for _, f := range w.from {
		if f.pods.pods == 0 {
			continue
		}
		each := m.each(f, f.of.size, w.size)
		if each == 0 {
			continue
		}
		for _, a := range f.pods.at {
			m.sums.spread(a.row, product(each, a.pods), 0)
		}
		sent := product(each, f.pods.pods)
		all = all.plus(sent)
		if f.of == w { // no pod talks to itself
			self = self.plus(sent)
		}
	}
	for _, b := range w.at {
		m.sums.spread(b.row, amount{}, b.pods)
	}
	m.sums.change(all, w.pods, self, change)
}

// touch takes what goes to a workload out of the sums, before something about it changes. settle adds it again.
func (m *matrix) touch(w *workload) {
	if m.sums == nil || w.touched {
		return
	}
	w.touched = true
	m.touched = append(m.touched, w)
	m.book(w, amount.minus)
}

// touchSize does so for all that depends on the size of a workload.
func (m *matrix) touchSize(w *workload) {
	m.touch(w)
	for _, f := range w.to {
		m.touch(f.to)
	}
}

// settle adds to the sums what was touched, and makes them the traffic.
func (m *matrix) settle() {
	if len(m.touched) == 0 {
		return
	}
	for _, w := range m.touched {
		m.book(w, amount.plus)
		w.touched = false
	}
	m.touched = m.touched[:0]
	m.sums.publish(m.traffic)
}

// start makes the sums anew, on a network.
func (m *matrix) start(n *cluster.Network) {
	_, _ = m.sizes.drain() // all of them are looked at
	m.traffic, m.sums, m.touched = cluster.NewTraffic(n), newSums(n), m.touched[:0]
	for _, w := range m.workloads {
		w.touched = false
		w.exist = m.sizes.of(w.key)
		w.size = w.sized()
	}
	for _, w := range m.workloads {
		m.book(w, amount.plus)
	}
	m.sums.publish(m.traffic)
}

// adapt divides flows anew whose workloads have got or lost pods.
func (m *matrix) adapt() {
	changed, all := m.sizes.drain()
	if all {
		changed = slices.Collect(maps.Keys(m.workloads))
	}
	for _, k := range changed {
		w := m.workloads[k]
		if w == nil {
			continue
		}
		if w.exist = m.sizes.of(k); w.sized() != w.size {
			m.touchSize(w)
			w.size = w.sized()
		}
	}
}

// notable is by how much a measured rate must change, as a share of what it was, to count anew.
const notable = 0.1

// measure makes the measured rates those given, in bytes a second of two whole workloads, and drops the others.
func (m *matrix) measure(rates map[pair]float64) {
	for p := range m.measured {
		if rates[p] == 0 {
			m.set(p, 0)
		}
	}
	for p, rate := range rates {
		if f := m.measured[p]; f == nil || math.Abs(rate-f.rate) > notable*f.rate {
			m.set(p, rate)
		}
	}
}

// set changes the measured rate of a pair; 0 for none.
func (m *matrix) set(p pair, rate float64) {
	a, b := m.workload(p.from), m.workload(p.to)
	m.touch(a) // an annotation of b's pods may count, or count no more
	m.touch(b)
	f := m.measured[p]
	switch {
	case f == nil:
		f = &flow{pods: &a.members, of: a, to: b, rate: rate, measured: true}
		m.measured[p] = f
		f.outOf = len(a.to)
		a.to = append(a.to, f)
		b.receive(f)
	case rate == 0:
		delete(m.measured, p)
		last := len(a.to) - 1
		a.to[f.outOf] = a.to[last]
		a.to[f.outOf].outOf = f.outOf
		a.to = a.to[:last]
		b.lose(f)
	default:
		f.rate = rate
	}
	m.tidy(a)
	m.tidy(b)
}

// pair is two workloads of which one sends to the other.
type pair struct{ from, to key }
