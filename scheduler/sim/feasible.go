package sim

import (
	"slices"

	"gnnsched/scheduler/cluster"
)

// feasible keeps the nodes that one pod fits on while nodes change. Replicas of a deployment
// come one after the other and a step changes one node, so most steps look at one node.
type feasible struct {
	snapshot *cluster.Snapshot
	pod      *cluster.Pod // nil: none yet
	rows     []int32      // ascending
}

// of returns the rows of the nodes that pod fits on. Equal pointers mean equal pods.
func (f *feasible) of(pod *cluster.Pod) []int32 {
	if pod != f.pod {
		f.pod, f.rows = pod, f.snapshot.Feasible(pod, f.rows[:0])
	}
	return f.rows
}

// update takes note that node i has changed.
func (f *feasible) update(i int32) {
	if f.pod == nil {
		return
	}
	at, in := slices.BinarySearch(f.rows, i)
	switch fits := f.snapshot.Nodes[i].Fit(f.pod) == cluster.Fits; {
	case fits && !in:
		f.rows = slices.Insert(f.rows, at, i)
	case !fits && in:
		f.rows = slices.Delete(f.rows, at, at+1)
	}
}
