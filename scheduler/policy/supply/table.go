// Package supply keeps how many more pods of each kind fit on the nodes of a cluster.
package supply

import (
	"math/bits"

	"gnnsched/internal/cluster"
)

// Table holds the places of kinds of pods: how many more pods of a kind fit on a node. Sync brings it up to date with what has changed. The
// zero value is empty.
type Table struct {
	Kinds  []*cluster.Kind
	Totals []Total // by kind
	Nodes  float64 // nodes on which pods of some kind may run

	epoch cluster.Version
	rows  []row // by row of the snapshot
}

// Total is a kind's places and nodes in the whole cluster.
type Total struct {
	Free   float64 // places for further pods
	Places float64 // places if no pod ran
	Nodes  float64 // nodes on which pods of the kind may run
}

// row is the places on a node.
type row struct {
	version cluster.Version
	allows  uint64  // a bit for each kind of which pods may run there
	free    []int32 // by kind
	places  []int32 // by kind: if no pod ran
}

// Sync brings the table up to date with a snapshot that has a Demand.
func (t *Table) Sync(s *cluster.Snapshot) {
	d := s.Demand
	if t.epoch != d.Epoch || len(t.rows) != len(s.Nodes) {
		k := len(d.Kinds)
		*t = Table{Totals: make([]Total, k), rows: make([]row, len(s.Nodes)), epoch: d.Epoch}
		places := make([]int32, 2*k*len(t.rows))
		for i := range t.rows {
			t.rows[i].free, t.rows[i].places = places[2*k*i:2*k*i+k], places[2*k*i+k:2*k*(i+1)]
		}
	}
	t.Kinds = d.Kinds
	for i, n := range s.Nodes {
		if r := &t.rows[i]; !n.Unchanged(r.version) {
			t.add(r, -1)
			r.look(n, t.Kinds)
			t.add(r, 1)
		}
	}
}

// add adds the places of a row to the totals, or subtracts them.
func (t *Table) add(r *row, sign float64) {
	if r.allows != 0 {
		t.Nodes += sign
	}
	for k := range r.kinds {
		t.Totals[k].Free += sign * float64(r.free[k])
		t.Totals[k].Places += sign * float64(r.places[k])
		t.Totals[k].Nodes += sign
	}
}

// look counts the places of a node.
func (r *row) look(n *cluster.Node, kinds []*cluster.Kind) {
	r.version, r.allows = n.Version, 0
	for k, kind := range kinds {
		if n.Allows(&kind.Pod) == cluster.Fits && kind.Pod.Requests.Within(n.Allocatable) {
			r.allows |= 1 << k
			r.free[k] = int32(n.Places(&kind.Pod.Requests))
			r.places[k] = int32(min(kind.Pod.Requests.FitsInto(n.Allocatable), n.Allocatable.Pods))
		}
	}
}

// kinds yields the kinds of which pods may run on the node.
func (r *row) kinds(yield func(int) bool) {
	for m := r.allows; m != 0; m &= m - 1 {
		if !yield(bits.TrailingZeros64(m)) {
			return
		}
	}
}

// Prices are two prices for each kind: Whole for each place that the kind loses, and Part for the room of a place that a pod takes, even if
// no whole place is lost.
type Prices struct{ Whole, Part []float64 }

// Cost writes to cost what a pod that requests r would cost on the node of each row: the sum over the kinds of what it takes from them.
func (t *Table) Cost(s *cluster.Snapshot, rows []int32, r *cluster.Resources, at Prices, cost []float64) {
	parts := map[uint64]float64{} // by the kinds that a node allows
	for i, v := range rows {
		row := &t.rows[v]
		sum, known := parts[row.allows]
		if !known {
			for k := range row.kinds {
				sum += at.Part[k] * part(&t.Kinds[k].Pod.Requests, r)
			}
			parts[row.allows] = sum
		}
		n := s.Nodes[v]
		free := n.Free().Minus(*r)
		free.Pods = n.Allocatable.Pods - n.Requested.Pods - 1
		devices := cluster.Node{}
		if r.TotalGPUMilli() > 0 {
			devices = n.With(*r)
		}
		for m := row.allows; m != 0; m &= m - 1 {
			k := bits.TrailingZeros64(m)
			asks, before := &t.Kinds[k].Pod.Requests, int64(row.free[k])
			gpu := devices.Allocatable.GPU > 0 && asks.TotalGPUMilli() > 0
			// Most places are not lost, and a multiplication tells sooner than a division.
			if before == 0 || !gpu && before <= free.Pods && before*asks.MilliCPU <= free.MilliCPU && before*asks.Memory <= free.Memory {
				continue
			}
			left := max(min(before, asks.FitsInto(free), free.Pods), 0)
			if gpu {
				left = devices.Places(asks)
			}
			sum += at.Whole[k] * float64(before-left)
		}
		cost[i] = sum
	}
}

// Takes returns how many places on the node of row v each kind loses to a pod that requests r.
func (t *Table) Takes(s *cluster.Snapshot, v int32, r cluster.Resources) []float64 {
	after, out := s.Nodes[v].With(r), make([]float64, len(t.Kinds))
	for k := range t.rows[v].kinds {
		out[k] = float64(int64(t.rows[v].free[k]) - after.Places(&t.Kinds[k].Pod.Requests))
	}
	return out
}

// part returns how many pods that request asks a pod that requests r takes the room of, by the resource of which it takes most.
func part(asks, r *cluster.Resources) (most float64) {
	for _, x := range [...][2]int64{{r.MilliCPU, asks.MilliCPU}, {r.Memory, asks.Memory}, {r.TotalGPUMilli(), asks.TotalGPUMilli()}} {
		if x[1] > 0 {
			most = max(most, float64(x[0])/float64(x[1]))
		}
	}
	return most
}

// Special returns the number of kinds of which pods may run on the node of row v, and not on every node on which some kind may.
func (t *Table) Special(v int32) (kinds int) {
	for k := range t.rows[v].kinds {
		if t.Totals[k].Nodes < t.Nodes {
			kinds++
		}
	}
	return kinds
}
