package encode

import (
	"gnnsched/gnn/feature"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
)

// GPUClusterEncoder computes the cluster's features in the GPU graph. It keeps sums over the nodes and looks
// again only at nodes that changed. It is not safe for concurrent use.
type GPUClusterEncoder struct {
	encoder *GPUNodeEncoder
	rows    []gpuRow
	sums    feature.GPUCluster
	context feature.Candidates             // of the features: the sums
	slots   [maxComing]int64               // sums of the nodes' slots
	idle    map[string]int64               // free thousandths of devices, by GPU model
	open    map[fragmentation.Access]int64 // the same, by access
	reserve Reserve
	x       []float32
}

// gpuRow holds the amounts that a node in one of its states adds to the sums, which are whole numbers, so that they
// do not drift.
type gpuRow struct {
	version cluster.Version
	model   string
	access  fragmentation.Access
	slots   slots
	adds    feature.GPUCluster
}

// NewGPUClusterEncoder returns an encoder for the encoder's layout and workload.
func NewGPUClusterEncoder(encoder *GPUNodeEncoder) *GPUClusterEncoder {
	c := &GPUClusterEncoder{
		encoder: encoder, sums: feature.GPUCluster{Workload: &encoder.workload},
		idle: map[string]int64{}, open: map[fragmentation.Access]int64{},
		reserve: Reserve{models: map[string]float64{}, pools: map[fragmentation.Access]float64{}},
	}
	c.context.GPUCluster = &c.sums
	return c
}

// Features returns the present features of the cluster, feature.Widths.Cluster of them. They are valid until the next call.
func (c *GPUClusterEncoder) Features(nodes []*cluster.Node) []float32 {
	for i := len(nodes); i < len(c.rows); i++ {
		c.add(&c.rows[i], -1)
	}
	c.rows = resize(c.rows, len(nodes))
	for i, n := range nodes {
		if r := &c.rows[i]; !n.Unchanged(r.version) {
			c.add(r, -1)
			*r = c.row(n)
			c.add(r, 1)
		}
	}
	layout := c.encoder.layout
	c.x = feature.Fill(layout.Cluster, &c.context, resize(c.x, layout.Widths.Cluster))
	return c.x
}

// IdleShare returns the idle fraction of the devices of the cluster that Features saw last, 0 to 1.
func (c *GPUClusterEncoder) IdleShare() float64 {
	return cluster.Fraction(c.sums.Idle, c.sums.Devices*cluster.DeviceMilli)
}

// add adds times a row to the sums.
func (c *GPUClusterEncoder) add(r *gpuRow, times int64) {
	c.sums.Add(&r.adds, times)
	if r.adds.Idle == 0 {
		return
	}
	c.idle[r.model] += times * r.adds.Idle
	c.open[r.access] += times * r.adds.Idle
	for i := range c.encoder.coming.shapes {
		c.slots[i] += times * int64(r.slots[i])
	}
}

// row returns the row of a node.
func (c *GPUClusterEncoder) row(n *cluster.Node) gpuRow {
	r := gpuRow{version: n.Version, model: n.GPUModel}
	if c.encoder.Open(n) {
		r.access = c.encoder.Access(n)
		r.adds = c.totals(n)
		r.slots = c.encoder.coming.slots(n, r.access, n.Free().MilliCPU, int(r.adds.Whole))
	}
	return r
}

// totals returns what one node that pods with GPUs may use adds to the features' sums.
func (c *GPUClusterEncoder) totals(n *cluster.Node) (s feature.GPUCluster) {
	n, _, _ = c.encoder.Placed(n, cluster.Resources{}, 0)
	free := n.Free()
	s = feature.GPUCluster{
		Devices: int64(len(n.GPUs)), Unusable: int64(c.encoder.typical.Fragmentation(n)),
		CPU: max(free.MilliCPU, 0), Memory: max(free.Memory, 0), AllCPU: n.Allocatable.MilliCPU, AllMemory: n.Allocatable.Memory,
	}
	if c.encoder.layout.Partitions {
		s.Partitions = feature.Count(n.Slices)
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
