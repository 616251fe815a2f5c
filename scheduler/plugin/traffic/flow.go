package traffic

import (
	"maps"
	"math"
	"slices"

	"gnnsched/internal/cluster"
)

// each returns the rate of one pod of a flow with one other in units, for these sizes of the two workloads.
func each(f *flow, of, to int32) uint64 { return units(f.rate / float64(of) / float64(to)) }

// peers appends what one more pod of a workload exchanges with the running pods, by ascending row.
func (m *matrix) peers(w *workload, out []cluster.Peer) []cluster.Peer {
	size := func(x *workload) int32 {
		if x == w {
			return max(x.size, x.pods+1) // it may not have heard of the pod yet
		}
		return x.size
	}
	var known []*workload // whose pods count already
	for f, other := range w.partners {
		each := each(f, size(f.of), size(f.to))
		if each == 0 {
			continue
		}
		for _, a := range other.at {
			pods := a.pods
			if other.counts {
				pods = 0
			}
			m.sums.note(int(a.row), product(each, a.pods), pods)
		}
		other.counts = true
		known = append(known, other)
	}
	for _, other := range known {
		other.counts = false
	}
	return m.sums.peers(out)
}

// book adds to the sums, or takes away, what all that talk to a workload exchange with it.
func (m *matrix) book(w *workload, change func(a, b amount) amount) {
	if w.pods == 0 || len(w.from) == 0 {
		return
	}
	var all, self amount
	for of, f := range w.from {
		each := each(f, of.size, w.size)
		if each == 0 || of.pods == 0 {
			continue
		}
		for _, a := range of.at {
			m.sums.spread(a.row, product(each, a.pods), 0)
		}
		sent := product(each, of.pods)
		all = all.plus(sent)
		if of == w { // no pod talks to itself
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
	for to := range w.to {
		m.touch(to)
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
	m.touch(b)
	if rate == 0 {
		delete(m.measured, p)
		delete(a.to, b)
		delete(b.from, a)
	} else {
		f := &flow{of: a, to: b, rate: rate}
		m.measured[p], a.to[b], b.from[a] = f, f, f
	}
	m.tidy(a)
	m.tidy(b)
}
