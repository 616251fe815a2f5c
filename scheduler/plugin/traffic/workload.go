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
	exist   int32   // its pods that the API server has, waiting or running
	size    int32   // the number of pods among which the flows to the workload are divided
	from    []*flow // to the workload
	to      []*flow // from it, of all its pods; those that are measured
	classes int     // of its pods
}

// sized returns the size of the workload if so many of its pods run.
func (w *workload) sized(running int32) int32 { return max(w.exist, running, 1) }

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

// flow is what pods of a workload exchange with another one, or with their own.
type flow struct {
	pods     *members // that exchange it: of a class, or of the whole workload if it is measured
	of, to   *workload
	rate     float64 // bytes a second: of each pod, or of all together if it is measured
	measured bool
}

// matrix holds who talks to whom, where the pods run, and what they exchange.
type matrix struct {
	annotations *annotations
	sizes       *sizes
	workloads   map[key]*workload
	measured    map[pair]*flow
	classes     map[classKey]*class
	traffic     *cluster.Traffic // nil while it is not kept up to date
	buffer      []cluster.Peer
}

// acquire returns the class of a pod. release gives it back.
func (m *matrix) acquire(p *v1.Pod) *class {
	text, flows := m.annotations.read(p)
	id := classKey{keyOf(p), text}
	c := m.classes[id]
	if c == nil {
		c = &class{classKey: id, of: m.workload(id.key)}
		c.of.classes++
		for _, x := range flows {
			f := &flow{pods: &c.members, of: c.of, to: m.workload(key{id.namespace, x.To}), rate: x.Rate}
			c.flows, f.to.from = append(c.flows, f), append(f.to.from, f)
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
		w.size = w.sized(0)
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
	c.of.classes--
	for _, f := range c.flows {
		f.to.from = slices.DeleteFunc(f.to.from, func(x *flow) bool { return x == f })
		m.tidy(f.to)
	}
	m.tidy(c.of)
}

func (m *matrix) tidy(w *workload) {
	if w.classes == 0 && len(w.from) == 0 && len(w.to) == 0 {
		delete(m.workloads, w.key)
	}
}

// enter adds a pod on a node.
func (m *matrix) enter(c *class, row int32) {
	if m.traffic != nil {
		m.resize(c.of, c.of.pods+1)
		m.buffer = m.peers(c, m.buffer[:0])
		m.traffic.Place(row, m.buffer)
	}
	c.add(row, 1)
	c.of.add(row, 1)
}

// leave undoes enter.
func (m *matrix) leave(c *class, row int32) {
	c.add(row, -1)
	c.of.add(row, -1)
	if m.traffic != nil {
		m.buffer = m.peers(c, m.buffer[:0])
		m.traffic.Remove(row, m.buffer)
		m.resize(c.of, c.of.pods)
	}
}
