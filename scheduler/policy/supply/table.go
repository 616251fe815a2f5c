// Package supply keeps how many more pods of each kind fit on the nodes of a cluster.
package supply

import (
	"math"
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
	rows  []row  // by row of the snapshot
	parts []part // by kind
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
	allows  uint64    // a bit for each kind of which pods may run there
	free    []int32   // by kind
	places  []int32   // by kind: if no pod ran
	partly  []float64 // by kind: as free, with parts of places
}

// part is how many places each unit of a resource is for pods of a kind, and, of what they do not request, how many there are anyway.
type part struct {
	cpu, memory, gpu  float64
	anyCPU, anyMemory float64
	devices           bool // whether they request some
}

func partOf(r *cluster.Resources) (p part) {
	of := func(x int64) (each, anyway float64) {
		if x <= 0 {
			return 0, 1 << 20
		}
		return 1 / float64(x), 0
	}
	p.cpu, p.anyCPU = of(r.MilliCPU)
	p.memory, p.anyMemory = of(r.Memory)
	p.gpu, _ = of(r.GPU)
	p.devices = r.TotalGPUMilli() > 0
	return p
}

// left is what is left of a node's room.
type left struct{ cpu, memory, pods float64 }

func leftOf(r cluster.Resources) left {
	return left{float64(r.MilliCPU), float64(r.Memory), float64(r.Pods)}
}

// of returns how many places there are for pods of a kind where so much is left: whole ones, and the eighth power of the part of one.
// So a node that lacks little of a place is spared, and one that lacks much is as good as one that has none of it.
func (p *part) of(l *left) float64 { return sharpened(p.room(l)) }

// room returns how many pods the rest of a node has room for, their devices aside.
func (p *part) room(l *left) float64 {
	return min(l.pods, l.cpu*p.cpu+p.anyCPU, l.memory*p.memory+p.anyMemory)
}

// on is of for pods that request devices, on the node with what is left. Where they request shares, only whole places count.
func (p *part) on(n *cluster.Node, asks *cluster.Resources, l *left) float64 {
	if asks.GPUMilli > 0 {
		const rounding = 1e-9
		return min(float64(n.Places(asks)), math.Floor(p.room(l)+rounding))
	}
	idle := n.Free().GPU
	if n.GPUs != nil {
		idle = n.IdleDevices()
	}
	return sharpened(min(p.room(l), float64(idle)*p.gpu))
}

func sharpened(places float64) float64 {
	whole := float64(int64(max(places, 0)))
	part := places - whole
	part *= part
	part *= part
	return whole + part*part
}

// partly returns the places of kind k on a node on which so much is left.
func (t *Table) partly(k int, n *cluster.Node, l *left) float64 {
	if p := &t.parts[k]; p.devices {
		return p.on(n, &t.Kinds[k].Pod.Requests, l)
	}
	return t.parts[k].of(l)
}

// Sync brings the table up to date with a snapshot that has a Demand.
func (t *Table) Sync(s *cluster.Snapshot) {
	d := s.Demand
	if t.epoch != d.Epoch || len(t.rows) != len(s.Nodes) {
		k := len(d.Kinds)
		*t = Table{Totals: make([]Total, k), rows: make([]row, len(s.Nodes)), epoch: d.Epoch}
		places, partly := make([]int32, 2*k*len(t.rows)), make([]float64, k*len(t.rows))
		for i := range t.rows {
			t.rows[i].free, t.rows[i].places = places[2*k*i:2*k*i+k], places[2*k*i+k:2*k*(i+1)]
			t.rows[i].partly = partly[k*i : k*i+k]
		}
		for _, kind := range d.Kinds {
			t.parts = append(t.parts, partOf(&kind.Pod.Requests))
		}
	}
	t.Kinds = d.Kinds
	for i, n := range s.Nodes {
		if r := &t.rows[i]; !n.Unchanged(r.version) {
			t.add(r, -1)
			r.look(n, t)
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
func (r *row) look(n *cluster.Node, t *Table) {
	r.version, r.allows = n.Version, 0
	l := leftOf(n.Free())
	for k, kind := range t.Kinds {
		if n.Allows(&kind.Pod) == cluster.Fits && kind.Pod.Requests.Within(n.Allocatable) {
			r.allows |= 1 << k
			r.free[k] = int32(n.Places(&kind.Pod.Requests))
			r.partly[k] = t.partly(k, n, &l)
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

// Prices are two prices for each kind: Whole for each place that the kind loses, and Part for the room of a place that a pod takes, on
// whichever of the nodes for the same kinds it runs.
type Prices struct{ Whole, Part []float64 }

// Cost writes to cost what a pod that requests r would cost on the node of each row: the sum over the kinds of what it takes from them.
func (t *Table) Cost(s *cluster.Snapshot, rows []int32, r *cluster.Resources, at Prices, cost []float64) {
	rooms := map[uint64]float64{} // by the kinds that a node allows
	for i, v := range rows {
		row := &t.rows[v]
		sum, known := rooms[row.allows]
		if !known {
			for k := range row.kinds {
				sum += at.Part[k] * roomOf(&t.Kinds[k].Pod.Requests, r)
			}
			rooms[row.allows] = sum
		}
		n := s.Nodes[v]
		if r.TotalGPUMilli() > 0 {
			with := n.With(*r)
			n = &with
		}
		of := s.Nodes[v]
		l := left{float64(of.Allocatable.MilliCPU - of.Requested.MilliCPU - r.MilliCPU),
			float64(of.Allocatable.Memory - of.Requested.Memory - r.Memory), float64(of.Allocatable.Pods - of.Requested.Pods - 1)}
		for m := row.allows; m != 0; m &= m - 1 {
			k := bits.TrailingZeros64(m)
			if before := row.partly[k]; before > 0 {
				sum += at.Whole[k] * max(before-t.partly(k, n, &l), 0)
			}
		}
		cost[i] = sum
	}
}

// Takes returns how many places on the node of row v, with parts of places, each kind loses to a pod that requests r.
func (t *Table) Takes(s *cluster.Snapshot, v int32, r cluster.Resources) []float64 {
	after, out := s.Nodes[v].With(r), make([]float64, len(t.Kinds))
	l := leftOf(after.Free())
	for k := range t.rows[v].kinds {
		out[k] = max(t.rows[v].partly[k]-t.partly(k, &after, &l), 0)
	}
	return out
}

// roomOf returns how many pods that request asks a pod that requests r takes the room of, by the resource of which it takes most.
func roomOf(asks, r *cluster.Resources) (most float64) {
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
