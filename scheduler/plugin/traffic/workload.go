package traffic

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

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
