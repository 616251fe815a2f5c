package encode

import (
	"gnnsched/gnn/feature"
	"gnnsched/internal/cluster"
)

// GPUClusterEncoder computes the cluster's features in the GPU graph. It keeps sums over the nodes and looks
// again only at nodes that changed. It is not safe for concurrent use.
type GPUClusterEncoder struct {
	encoder *GPUNodeEncoder
	rows    []gpuRow
	sums    feature.GPUCluster
	x       []float32
}

// gpuRow holds the amounts that a node in one of its states adds to the sums, which are whole numbers, so that they
// do not drift.
type gpuRow struct {
	version cluster.Version
	adds    feature.GPUCluster
}

// NewGPUClusterEncoder returns an encoder for the encoder's layout and workload.
func NewGPUClusterEncoder(encoder *GPUNodeEncoder) *GPUClusterEncoder {
	return &GPUClusterEncoder{encoder: encoder, sums: feature.GPUCluster{Workload: &encoder.workload}}
}

// Features returns the features of the cluster as it is, feature.GPUWidths.Cluster of them. They are
// valid until the next call.
func (c *GPUClusterEncoder) Features(nodes []*cluster.Node) []float32 {
	for i := len(nodes); i < len(c.rows); i++ {
		c.sums.Add(&c.rows[i].adds, -1)
	}
	c.rows = resize(c.rows, len(nodes))
	for i, n := range nodes {
		if r := &c.rows[i]; !n.Unchanged(r.version) {
			c.sums.Add(&r.adds, -1)
			*r = gpuRow{n.Version, c.totals(n)}
			c.sums.Add(&r.adds, 1)
		}
	}
	layout := c.encoder.layout
	c.x = feature.Fill(layout.Cluster, &c.sums, resize(c.x, layout.Widths.Cluster))
	return c.x
}

// totals returns what one node adds to the sums.
func (c *GPUClusterEncoder) totals(n *cluster.Node) (s feature.GPUCluster) {
	if !n.Available() {
		return s
	}
	free := n.Free()
	s = feature.GPUCluster{
		Devices: int64(len(n.GPUs)), Unusable: int64(c.encoder.typical.Fragmentation(n)),
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
