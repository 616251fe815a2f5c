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

// place is a number of pods on the node of a row.
type place struct{ row, pods int32 }

// members are running pods.
type members struct {
	at   []place // by ascending row
	pods int32   // of all places
}

// add adds a number of pods, which may be negative, on a node.
func (m *members) add(row, pods int32) {
	m.pods += pods
	i, found := slices.BinarySearchFunc(m.at, row, func(p place, row int32) int { return cmp.Compare(p.row, row) })
	if !found {
		m.at = slices.Insert(m.at, i, place{row: row})
	}
	if m.at[i].pods += pods; m.at[i].pods == 0 {
		m.at = slices.Delete(m.at, i, i+1)
	}
}

// clear removes all pods.
func (m *members) clear() { m.at, m.pods = m.at[:0], 0 }

// workload is all pods of one key.
type workload struct {
	key
	members
	exist   int32    // its pods that the API server has, waiting or running
	size    int32    // the number of pods among which the flows to the workload are divided
	from    []*flow  // to the workload
	to      []*flow  // from it, of all its pods; those that are measured
	classes []*class // of its pods
	touched bool     // what goes to it is not in the sums; see matrix.touch
	counts  bool     // see matrix.peers and matrix.beyond
	reached amount   // what each of its pods gets in matrix.beyond
}

// sized returns what the size of the workload should be.
func (w *workload) sized() int32 { return max(w.exist, w.pods, 1) }

// receive and lose add and remove a flow to the workload.
func (w *workload) receive(f *flow) {
	f.into = len(w.from)
	w.from = append(w.from, f)
}

func (w *workload) lose(f *flow) {
	last := len(w.from) - 1
	w.from[f.into] = w.from[last]
	w.from[f.into].into = f.into
	w.from[last] = nil
	w.from = w.from[:last]
}

// classKey identifies a class.
type classKey struct {
	key
	text string // of the annotation; "" if there is no valid one
}

// class is the pods of a workload that have the same annotation.
type class struct {
	classKey
	members
	of    *workload
	flows []*flow
	refs  int // number of pods that are known, and of decisions about one
}

// flow is the traffic between the pods of a workload and those of another one, or among its own.
type flow struct {
	pods     *members // that exchange it: of a class, or of the whole workload if it is measured
	of, to   *workload
	rate     float64 // bytes a second: of each pod, or of all together if it is measured
	measured bool

	into, outOf int // places in to.from and, if it is measured, in of.to
}

// matrix holds who talks to whom, where the pods run, and what they exchange.
type matrix struct {
	annotations *annotations
	sizes       *sizes
	workloads   map[key]*workload
	measured    map[pair]*flow
	classes     map[classKey]*class
	traffic     *cluster.Traffic // nil before the first decision
	sums        *sums            // that the traffic follows from; nil while they are not kept up to date
	touched     []*workload      // what goes to these is not in the sums

	// Of the last call of beyond and of reach.
	near, far []*workload // partners, and the workloads two steps away
	met       []*workload // those to which one partner leads
}

// acquire returns the class of a pod. release gives it back.
func (m *matrix) acquire(p *v1.Pod) *class {
	text, flows := m.annotations.read(p)
	id := classKey{keyOf(p), text}
	c := m.classes[id]
	if c == nil {
		c = &class{classKey: id, of: m.workload(id.key)}
		c.of.classes = append(c.of.classes, c)
		for _, x := range flows {
			f := &flow{pods: &c.members, of: c.of, to: m.workload(key{id.namespace, x.To}), rate: x.Rate}
			c.flows = append(c.flows, f)
			f.to.receive(f)
		}
		m.classes[id] = c
	}
	c.refs++
	return c
}

// workload returns the workload of a key.
func (m *matrix) workload(k key) *workload {
	w := m.workloads[k]
	if w == nil {
		w = &workload{key: k, exist: m.sizes.of(k)}
		w.size = w.sized()
		m.workloads[k] = w
	}
	return w
}

// release undoes acquire. The matrix forgets a class that nobody holds, and a workload that has no pods and that
// nobody talks to.
func (m *matrix) release(c *class) {
	if c.refs--; c.refs > 0 {
		return
	}
	delete(m.classes, c.classKey)
	i := slices.Index(c.of.classes, c)
	c.of.classes = slices.Delete(c.of.classes, i, i+1)
	for _, f := range c.flows {
		f.to.lose(f)
		m.tidy(f.to)
	}
	m.tidy(c.of)
}

func (m *matrix) tidy(w *workload) {
	if len(w.classes) == 0 && len(w.from) == 0 && len(w.to) == 0 {
		delete(m.workloads, w.key)
	}
}

// move adds pods of a class on a node; a negative number takes them away.
func (m *matrix) move(c *class, row, pods int32) {
	m.touchSize(c.of)
	for _, f := range c.flows {
		m.touch(f.to)
	}
	c.add(row, pods)
	c.of.add(row, pods)
	c.of.size = c.of.sized()
}
