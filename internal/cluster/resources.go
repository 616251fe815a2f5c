package cluster

// Resources is an amount of each resource that a pod asks for or a node offers.
type Resources struct {
	MilliCPU int64 // thousandths of a CPU core
	Memory   int64 // bytes
	GPU      int64 // whole devices
	GPUMilli int64 // thousandths of one device that a pod shares, 1 to 999; GPU is then 0
	Pods     int64 // pod slots; 1 for a pod
}

// Plus returns r + o.
func (r Resources) Plus(o Resources) Resources {
	return Resources{r.MilliCPU + o.MilliCPU, r.Memory + o.Memory, r.GPU + o.GPU, r.GPUMilli + o.GPUMilli, r.Pods + o.Pods}
}

// Minus returns r - o.
func (r Resources) Minus(o Resources) Resources {
	return Resources{r.MilliCPU - o.MilliCPU, r.Memory - o.Memory, r.GPU - o.GPU, r.GPUMilli - o.GPUMilli, r.Pods - o.Pods}
}

// Times returns n·r.
func (r Resources) Times(n int64) Resources {
	return Resources{n * r.MilliCPU, n * r.Memory, n * r.GPU, n * r.GPUMilli, n * r.Pods}
}

// TotalGPUMilli is whole devices and shares together, in thousandths of a device.
func (r Resources) TotalGPUMilli() int64 { return DeviceMilli*r.GPU + r.GPUMilli }

// Within tells whether r fits into free in every resource; of GPUs it sees the total, as one
// device would have it. As in kube-scheduler, a resource that is not asked for fits even where
// nothing of it is left.
func (r Resources) Within(free Resources) bool {
	return fits(r.MilliCPU, free.MilliCPU) && fits(r.Memory, free.Memory) && fits(r.TotalGPUMilli(), free.TotalGPUMilli()) && fits(r.Pods, free.Pods)
}

// FitsInto returns how many times the CPU and memory of r fit into free; 1<<20 where r asks
// for neither.
func (r Resources) FitsInto(free Resources) int64 {
	n := int64(1) << 20
	if r.MilliCPU > 0 {
		n = min(n, free.MilliCPU/r.MilliCPU)
	}
	if r.Memory > 0 {
		n = min(n, free.Memory/r.Memory)
	}
	return max(n, 0)
}

func fits(want, free int64) bool { return want == 0 || want <= free }

// Fraction returns a/b, and 0 where b is 0 or less (a node that offers none of a resource
// uses none of it).
func Fraction(a, b int64) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}
