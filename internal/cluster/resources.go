package cluster

// Resources are the amounts that a pod requests or a node offers.
type Resources struct {
	MilliCPU int64 // thousandths of a CPU core
	Memory   int64 // bytes
	GPU      int64 // whole devices
	GPUMilli int64 // thousandths of one device, for a pod that shares it, 1 to 999; GPU is then 0
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

// TotalGPUMilli returns whole devices and shares together, in thousandths of a device.
func (r Resources) TotalGPUMilli() int64 { return DeviceMilli*r.GPU + r.GPUMilli }

// Within reports whether every resource of r fits into free. GPUs are compared in total, not by
// device. As in kube-scheduler, a request of 0 always fits, even into a negative rest.
func (r Resources) Within(free Resources) bool {
	return fits(r.MilliCPU, free.MilliCPU) && fits(r.Memory, free.Memory) && fits(r.TotalGPUMilli(), free.TotalGPUMilli()) &&
		fits(r.Pods, free.Pods)
}

// FitsInto returns how many times the CPU and memory of r fit into free, or 1<<20 if r requests
// neither.
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

// The amounts that a pod counts with in scores if it requests none, as in kube-scheduler: a pod uses something, whatever it requests.
const (
	countedMilliCPU = 100
	countedMemory   = 200 << 20
)

// Counted returns what a pod that requests r counts with in scores: r, with upstream's amounts in place of CPU and memory that it does
// not request. Whether a pod fits is decided by r alone.
func (r Resources) Counted() Resources {
	if r.MilliCPU == 0 {
		r.MilliCPU = countedMilliCPU
	}
	if r.Memory == 0 {
		r.Memory = countedMemory
	}
	return r
}

// Fraction returns a/b. Of a resource that a node lacks (b is not positive) it is 0 for an amount of 0, and else 1: such a node is full.
func Fraction(a, b int64) float64 {
	switch {
	case b > 0:
		return float64(a) / float64(b)
	case a > 0:
		return 1
	}
	return 0
}
