package sim

import (
	"slices"

	"gnnsched/internal/cluster"
)

// feasibleNodes keeps, for each shape of pods, the nodes that they fit on. A step changes one node,
// so when a pod of a shape arrives, only the nodes that changed since the last such pod are checked
// again.
type feasibleNodes struct {
	snapshot *cluster.Snapshot
	shapes   []fitting // by shape
	known    int       // shapes whose nodes are kept
	changed  []int32   // rows in the order in which they changed, with repetitions
}

// fitting is the nodes that pods of one shape fit on.
type fitting struct {
	known bool
	rows  []int32 // ascending
	upTo  int     // rows reflects changed[:upTo]
}

// maxFitting bounds the memory for workloads in which every pod has another shape.
const maxFitting = 512

// reset starts anew with a number of shapes.
func (f *feasibleNodes) reset(s *cluster.Snapshot, shapes int) {
	*f = feasibleNodes{snapshot: s, shapes: make([]fitting, shapes), changed: f.changed[:0]}
}

// of returns the rows of the nodes that a pod of the given shape fits on, ascending.
func (f *feasibleNodes) of(pod *cluster.Pod, shape int32) []int32 {
	s := &f.shapes[shape]
	if !s.known || len(f.changed)-s.upTo > len(f.snapshot.Nodes) {
		f.checkAll(s, pod)
	}
	for _, row := range f.changed[s.upTo:] {
		s.update(row, f.snapshot.Nodes[row].Fit(pod) == cluster.Fits)
	}
	s.upTo = len(f.changed)
	return s.rows
}

// checkAll checks all nodes for a shape.
func (f *feasibleNodes) checkAll(s *fitting, pod *cluster.Pod) {
	if !s.known {
		if f.known == maxFitting {
			clear(f.shapes)
			f.known = 0
		}
		f.known++
	}
	s.known = true
	s.upTo = len(f.changed)
	s.rows = f.snapshot.Feasible(pod, s.rows[:0])
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

// update records that a node has changed.
func (f *feasibleNodes) update(row int32) { f.changed = append(f.changed, row) }
