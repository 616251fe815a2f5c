package traffic

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"gnnsched/internal/cluster"
)

// each returns the rate of one pod of a flow with one other, for these sizes of the two workloads. Whole numbers can be
// added and taken away again without rounding errors. What is measured between two workloads, in either direction, counts
// instead of annotations.
func (m *matrix) each(f *flow, of, to int32) float64 {
	switch {
	case f.measured:
		return math.Round(f.rate / float64(of) / float64(to))
	case len(m.measured) > 0 && (m.measured[pair{f.of.key, f.to.key}] != nil || m.measured[pair{f.to.key, f.of.key}] != nil):
		return 0
	}
	return math.Round(f.rate / float64(to))
}

// peers appends what one more pod of a class exchanges with the running pods, by ascending row.
func (m *matrix) peers(c *class, out []cluster.Peer) []cluster.Peer {
	size := func(w *workload) int32 {
		if w == c.of {
			return max(w.size, w.pods+1) // it may not have heard of the pod yet
		}
		return w.size
	}
	var known []*workload // whose pods count already
	add := func(f *flow, other *workload, at []place) {
		each := m.each(f, size(f.of), size(f.to))
		again := slices.Contains(known, other)
		for _, a := range at {
			p := cluster.Peer{Row: a.row, Pods: a.pods, Rate: each * float64(a.pods)}
			if again {
				p.Pods = 0
			}
			if each > 0 {
				out = cluster.AddPeer(out, p)
			}
		}
	}
	for _, flows := range [][]*flow{c.flows, c.of.to} {
		for _, f := range flows {
			add(f, f.to, f.to.at)
			if m.each(f, size(f.of), size(f.to)) > 0 {
				known = append(known, f.to)
			}
		}
	}
	for _, f := range c.of.from {
		add(f, f.of, f.pods.at)
	}
	return out
}

// resize divides the flows of a workload anew if its size changes with so many running pods.
func (m *matrix) resize(w *workload, running int32) {
	size := w.sized(running)
	if size == w.size {
		return
	}
	flows := w.from
	if len(w.to) > 0 {
		flows = slices.Clone(flows)
		for _, f := range w.to {
			if f.to != w { // else it is there already
				flows = append(flows, f)
			}
		}
	}
	m.book(flows, (*cluster.Traffic).Remove)
	w.size = size
	m.book(flows, (*cluster.Traffic).Place)
}

// book adds to the traffic, or removes from it, all of some flows between running pods.
func (m *matrix) book(flows []*flow, change func(*cluster.Traffic, int32, []cluster.Peer)) {
	if m.traffic == nil {
		return
	}
	for _, f := range flows {
		each := m.each(f, f.of.size, f.to.size)
		if each == 0 || len(f.to.at) == 0 {
			continue
		}
		for _, a := range f.pods.at {
			m.buffer = m.buffer[:0]
			for _, b := range f.to.at {
				pairs := a.pods * b.pods
				if a.row == b.row && f.of == f.to {
					pairs -= a.pods // no pod talks to itself
				}
				m.buffer = append(m.buffer, cluster.Peer{Row: b.row, Pods: b.pods, Rate: each * float64(pairs)})
			}
			change(m.traffic, a.row, m.buffer)
		}
	}
}

// adapt divides flows anew whose workloads have got or lost pods.
func (m *matrix) adapt() {
	changed, all := m.sizes.drain()
	if all {
		changed = slices.Collect(maps.Keys(m.workloads))
	}
	slices.SortFunc(changed, key.compare)
	for _, k := range changed {
		if w := m.workloads[k]; w != nil {
			w.exist = m.sizes.of(k)
			m.resize(w, w.pods)
		}
	}
}

// notable is by how much a measured rate must change, as a share of what it was, to count anew.
const notable = 0.1

// measure makes the measured rates those given, in bytes a second of two whole workloads, and drops the others.
func (m *matrix) measure(rates map[pair]float64) {
	for _, p := range slices.SortedFunc(maps.Keys(m.measured), pair.compare) {
		if rates[p] == 0 {
			m.set(p, 0)
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(rates), pair.compare) {
		if f := m.measured[p]; f == nil || math.Abs(rates[p]-f.rate) > notable*f.rate {
			m.set(p, rates[p])
		}
	}
}

// set changes the measured rate of a pair; 0 for none.
func (m *matrix) set(p pair, rate float64) {
	a, b := m.workload(p.from), m.workload(p.to)
	var flows []*flow // between the two
	for _, f := range b.from {
		if f.of == a {
			flows = append(flows, f)
		}
	}
	for _, f := range a.from {
		if a != b && f.of == b {
			flows = append(flows, f)
		}
	}
	m.book(flows, (*cluster.Traffic).Remove)
	f := m.measured[p]
	switch {
	case f == nil:
		f = &flow{pods: &a.members, of: a, to: b, rate: rate, measured: true}
		m.measured[p], a.to, b.from = f, append(a.to, f), append(b.from, f)
		flows = append(flows, f)
	case rate == 0:
		is := func(x *flow) bool { return x == f }
		delete(m.measured, p)
		a.to, b.from, flows = slices.DeleteFunc(a.to, is), slices.DeleteFunc(b.from, is), slices.DeleteFunc(flows, is)
	default:
		f.rate = rate
	}
	m.book(flows, (*cluster.Traffic).Place)
	m.tidy(a)
	m.tidy(b)
}

// pair is two workloads of which one sends to the other.
type pair struct{ from, to key }

func (p pair) compare(q pair) int { return cmp.Or(p.from.compare(q.from), p.to.compare(q.to)) }

func (k key) compare(l key) int {
	return cmp.Or(cmp.Compare(k.namespace, l.namespace), cmp.Compare(k.name, l.name))
}
