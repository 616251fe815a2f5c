package sim

import (
	"slices"

	"gnnsched/internal/cluster"
)

// feasible keeps the nodes that pods of each shape fit on while nodes change. A step changes
// one node, so that a shape has to look only at the nodes that changed since it last came.
type feasible struct {
	snapshot *cluster.Snapshot
	shapes   []fitting // by shape
	known    int       // shapes with rows
	changed  []int32   // rows in the order in which they changed; some more than once
}

// fitting is the nodes that pods of one shape fit on.
type fitting struct {
	known bool
	rows  []int32 // ascending
	upTo  int     // how many of the changes are in rows
}

// maxFitting bounds what is kept for workloads in which every pod is of another shape.
const maxFitting = 512

// follow begins anew with so many shapes.
func (f *feasible) follow(s *cluster.Snapshot, shapes int) {
	*f = feasible{snapshot: s, shapes: make([]fitting, shapes), changed: f.changed[:0]}
}

// of returns the rows of the nodes that pod, which is of a shape, fits on.
func (f *feasible) of(pod *cluster.Pod, shape int32) []int32 {
	s := &f.shapes[shape]
	if !s.known || len(f.changed)-s.upTo > len(f.snapshot.Nodes) {
		f.learn(s, pod)
	}
	for _, row := range f.changed[s.upTo:] {
		s.update(row, f.snapshot.Nodes[row].Fit(pod) == cluster.Fits)
	}
	s.upTo = len(f.changed)
	return s.rows
}

// learn looks at all nodes.
func (f *feasible) learn(s *fitting, pod *cluster.Pod) {
	if !s.known {
		if f.known == maxFitting {
			clear(f.shapes)
			f.known = 0
		}
		f.known++
	}
	s.known, s.upTo, s.rows = true, len(f.changed), f.snapshot.Feasible(pod, s.rows[:0])
}

func (s *fitting) update(row int32, fits bool) {
	at, in := slices.BinarySearch(s.rows, row)
	switch {
	case fits && !in:
		s.rows = slices.Insert(s.rows, at, row)
	case !fits && in:
		s.rows = slices.Delete(s.rows, at, at+1)
	}
}

// update takes note that a node has changed.
func (f *feasible) update(row int32) { f.changed = append(f.changed, row) }
