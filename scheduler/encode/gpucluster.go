package encode

import "gnnsched/internal/cluster"

// GPUCluster follows the sums over a cluster's nodes that the features of its GPU graph follow
// from, looking again only at the nodes that changed. It is not safe for concurrent use.
type GPUCluster struct {
	of   *GPU
	rows []gpuRow
	sum  gpuSums
	x    []float32
}

// gpuRow is what a node in one of its states adds to the sums.
type gpuRow struct {
	version cluster.Version
	adds    gpuSums
}

// gpuSums are whole numbers, so that they do not drift.
type gpuSums struct {
	devices, whole, shared, idle, fragmented int64 // the last three in thousandths of a device
	cpu, memory, cpuAll, memoryAll           int64 // free and allocatable
}

// NewGPUCluster returns a follower of one cluster.
func NewGPUCluster(of *GPU) *GPUCluster { return &GPUCluster{of: of} }

// Features are the features of the cluster as it is, valid until the next call.
func (c *GPUCluster) Features(nodes []*cluster.Node) []float32 {
	for i := len(nodes); i < len(c.rows); i++ {
		c.sum.add(&c.rows[i].adds, -1)
	}
	for len(c.rows) < len(nodes) {
		c.rows = append(c.rows, gpuRow{})
	}
	c.rows = c.rows[:len(nodes)]
	for i, n := range nodes {
		if r := &c.rows[i]; !n.Unchanged(r.version) {
			c.sum.add(&r.adds, -1)
			*r = gpuRow{n.Version, c.look(n)}
			c.sum.add(&r.adds, 1)
		}
	}
	return c.features()
}

func (c *GPUCluster) look(n *cluster.Node) (s gpuSums) {
	if !n.Available() {
		return s
	}
	free := n.Free()
	s = gpuSums{
		devices: int64(len(n.GPUs)), fragmented: int64(c.of.typical.Fragmentation(n)),
		cpu: max(free.MilliCPU, 0), memory: max(free.Memory, 0), cpuAll: n.Allocatable.MilliCPU, memoryAll: n.Allocatable.Memory,
	}
	for _, used := range n.GPUs {
		room := max(cluster.DeviceMilli-used, 0)
		if s.idle += room; used == 0 {
			s.whole++
		} else {
			s.shared += room
		}
	}
	return s
}

func (s *gpuSums) add(o *gpuSums, times int64) {
	s.devices += times * o.devices
	s.whole += times * o.whole
	s.shared += times * o.shared
	s.idle += times * o.idle
	s.fragmented += times * o.fragmented
	s.cpu += times * o.cpu
	s.memory += times * o.memory
	s.cpuAll += times * o.cpuAll
	s.memoryAll += times * o.memoryAll
}

func (c *GPUCluster) features() []float32 {
	s, e := &c.sum, c.of
	devices := max(float64(s.devices), 1)
	whole := float64(s.whole) / devices
	c.x = append(c.x[:0],
		float32(whole), float32(min(10*whole, 1)), float32(min(50*whole, 1)),
		float32(float64(s.shared)/cluster.DeviceMilli/devices*10),
		ratio(s.cpu, s.cpuAll), ratio(s.memory, s.memoryAll),
		float32(e.withoutGPU), float32(e.share), float32(min(e.multi, 1)), float32(e.named), float32(e.shareSize),
		float32(float64(s.fragmented)/float64(s.idle+cluster.DeviceMilli)),
		float32(quotient(e.unit*devices, float64(s.cpuAll))))
	return c.x
}
