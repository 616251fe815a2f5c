package traffic

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
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

// key names a workload.
type key struct{ namespace, name string }

// keyOf returns the workload of a pod: the name of what kube.Workload returns. A pod without one is a workload of its own.
func keyOf(p *v1.Pod) key {
	_, name, _ := strings.Cut(kube.Workload(p), "/")
	return key{p.Namespace, cmp.Or(name, p.Name)}
}

// pair is two workloads of which one sends to the other.
type pair struct{ from, to key }

// place is a number of pods on the node of a row.
type place struct{ row, pods int32 }

// workload is all pods of one key.
type workload struct {
	key
	at      []place             // its running pods, by ascending row
	pods    int32               // of all places
	refs    int                 // number of pods that are known, and of decisions about one
	exist   int32               // its pods that the API server has, waiting or running
	size    int32               // the number of pods among which its flows are divided
	from    map[*workload]*flow // to this workload, by who sends
	to      map[*workload]*flow // from it
	touched bool                // what goes to it is not in the sums; see matrix.touch
	counts  bool                // see matrix.peers and matrix.beyond
	reached amount              // what each of its pods gets in matrix.beyond
}

// sized returns what the size of the workload should be.
func (w *workload) sized() int32 { return max(w.exist, w.pods, 1) }

// add adds a number of pods, which may be negative, on a node.
func (w *workload) add(row, pods int32) {
	w.pods += pods
	i, found := slices.BinarySearchFunc(w.at, row, func(p place, row int32) int { return cmp.Compare(p.row, row) })
	if !found {
		w.at = slices.Insert(w.at, i, place{row: row})
	}
	if w.at[i].pods += pods; w.at[i].pods == 0 {
		w.at = slices.Delete(w.at, i, i+1)
	}
}

// clear removes all pods.
func (w *workload) clear() { w.at, w.pods = w.at[:0], 0 }

// partners yields the flows of the workload, and the workload at the other end of each; both twice for a flow among its own pods.
func (w *workload) partners(yield func(*flow, *workload) bool) {
	for _, flows := range []map[*workload]*flow{w.to, w.from} {
		for other, f := range flows {
			if !yield(f, other) {
				return
			}
		}
	}
}

// flow is the traffic from all pods of a workload to all of another one, or among its own.
type flow struct {
	of, to *workload
	rate   float64 // bytes a second
}

// matrix holds who talks to whom, where the pods run, and what they exchange.
type matrix struct {
	sizes     *sizes
	workloads map[key]*workload
	measured  map[pair]*flow
	traffic   *cluster.Traffic // nil before the first decision
	sums      *sums            // that the traffic follows from; nil while they are not kept up to date
	touched   []*workload      // what goes to these is not in the sums

	// Of the last call of beyond and of reach.
	near, far []*workload // partners, and the workloads two steps away
	met       []*workload // those to which one partner leads
}

// acquire returns the workload of a pod. release gives it back.
func (m *matrix) acquire(p *v1.Pod) *workload {
	w := m.workload(keyOf(p))
	w.refs++
	return w
}

// workload returns the workload of a key.
func (m *matrix) workload(k key) *workload {
	w := m.workloads[k]
	if w == nil {
		w = &workload{key: k, exist: m.sizes.of(k), from: map[*workload]*flow{}, to: map[*workload]*flow{}}
		w.size = w.sized()
		m.workloads[k] = w
	}
	return w
}

// release undoes acquire.
func (m *matrix) release(w *workload) {
	w.refs--
	m.tidy(w)
}

// tidy forgets a workload that nobody holds and that has no flow.
func (m *matrix) tidy(w *workload) {
	if w.refs == 0 && len(w.from) == 0 && len(w.to) == 0 {
		delete(m.workloads, w.key)
	}
}

// move adds pods of a workload on a node; a negative number takes them away.
func (m *matrix) move(w *workload, row, pods int32) {
	m.touchSize(w)
	w.add(row, pods)
	w.size = w.sized()
}
