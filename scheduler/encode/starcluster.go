package encode

import (
	"gnnsched/gnn/feature"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
)

// starRow holds the amounts that a node in one of its states adds to the sums, which are whole numbers, so that they
// do not drift.
type starRow struct {
	version cluster.Version
	model   string
	access  fragmentation.Access
	slots   slots
	adds    feature.GPUCluster
}

// Features returns the present features of the cluster, feature.Widths.Cluster of them. They are valid until the next call.
func (e *Stars) Features(nodes []*cluster.Node) []float32 {
	for i := len(nodes); i < len(e.rows); i++ {
		e.add(&e.rows[i], -1)
	}
	e.rows = resize(e.rows, len(nodes))
	for i, n := range nodes {
		if r := &e.rows[i]; !n.Unchanged(r.version) {
			e.add(r, -1)
			*r = e.row(n)
			e.add(r, 1)
		}
	}
	layout := e.layout
	e.x = feature.Fill(layout.Cluster, &e.context, resize(e.x, layout.Widths.Cluster))
	return e.x
}

// IdleShare returns the idle fraction of the devices of the cluster that Features saw last, 0 to 1.
func (e *Stars) IdleShare() float64 {
	return cluster.Fraction(e.sums.Idle, e.sums.Devices*cluster.DeviceMilli)
}

// add adds times a row to the sums.
func (e *Stars) add(r *starRow, times int64) {
	e.sums.Add(&r.adds, times)
	if r.adds.Idle == 0 {
		return
	}
	e.idle[r.model] += times * r.adds.Idle
	e.open[r.access] += times * r.adds.Idle
	for i := range e.coming.shapes {
		e.slots[i] += times * int64(r.slots[i])
	}
}

// row returns the row of a node.
func (e *Stars) row(n *cluster.Node) starRow {
	r := starRow{version: n.Version, model: n.GPUModel}
	if e.Open(n) {
		r.access = e.Access(n)
		r.adds = e.totals(n)
		r.slots = e.coming.slots(n, r.access, n.Free().MilliCPU, int(r.adds.Whole))
	}
	return r
}

// totals returns what one node that pods with GPUs may use adds to the features' sums.
func (e *Stars) totals(n *cluster.Node) (s feature.GPUCluster) {
	free := n.Free()
	s = feature.GPUCluster{
		Devices: int64(len(n.GPUs)), Unusable: int64(e.typical.Fragmentation(n)),
		CPU: max(free.MilliCPU, 0), Memory: max(free.Memory, 0), AllCPU: n.Allocatable.MilliCPU, AllMemory: n.Allocatable.Memory,
	}
	for _, used := range n.GPUs {
		room := max(cluster.DeviceMilli-used, 0)
		if s.Idle += room; used == 0 {
			s.Whole++
		} else {
			s.Shared += room
		}
	}
	return s
}
