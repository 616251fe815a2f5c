package sim

import (
	"gnnsched/internal/cluster"
)

// GPUOutcome is how an episode went for the GPUs. Fractions are of all devices of the
// available nodes.
type GPUOutcome struct {
	Allocation float64 `json:"allocation"` // given to the pods that run
	// AllocationAtFull is the same when the pods that had arrived had just asked for as much
	// as there is; 0 where they never did.
	AllocationAtFull float64 `json:"allocationAtFull"`
	// Stranded is what is idle on nodes without the CPU for it, at the CPU that the
	// episode's pods with GPUs ask for by GPU.
	Stranded float64 `json:"stranded"`

	UnscheduledCPU   int `json:"unscheduledCPU"`   // pods without a node that ask for no GPU
	UnscheduledShare int `json:"unscheduledShare"` // for a share of a device
	UnscheduledWhole int `json:"unscheduledWhole"` // for whole devices
}

// gpuDemand follows how much of the GPUs the arriving pods ask for, in thousandths of a device.
type gpuDemand struct {
	capacity int64
	asked    int64
	atFull   float64 // the allocation when what was asked for reached the capacity
	full     bool
	perCPU   float64 // GPU that the episode's pods with GPUs ask for, by CPU
}

func newGPUDemand(nodes []*cluster.Node, a *arrivals) (d gpuDemand) {
	d.capacity = gpuCapacity(nodes)
	var cpu, gpu int64
	for _, i := range a.pods {
		if r := a.deployments[i].pod.Requests; r.TotalGPUMilli() > 0 {
			cpu, gpu = cpu+r.MilliCPU, gpu+r.TotalGPUMilli()
		}
	}
	d.perCPU = cluster.Fraction(gpu, cpu)
	return d
}

// arrive takes note of one more pod, after what came before it was settled.
func (d *gpuDemand) arrive(r cluster.Resources, nodes []*cluster.Node) {
	d.settle(nodes)
	d.asked += r.TotalGPUMilli()
}

// settle keeps the allocation once what was asked for has reached the capacity.
func (d *gpuDemand) settle(nodes []*cluster.Node) {
	if !d.full && d.capacity > 0 && d.asked >= d.capacity {
		d.full, d.atFull = true, gpuAllocation(nodes)
	}
}

// gpuOutcome is nil on a cluster without GPUs.
func (e *Env) gpuOutcome() *GPUOutcome {
	nodes := e.snapshot.Nodes
	total := gpuCapacity(nodes)
	if total == 0 {
		return nil
	}
	e.gpus.settle(nodes)
	o := &GPUOutcome{Allocation: gpuAllocation(nodes), AllocationAtFull: e.gpus.atFull}
	for _, n := range nodes {
		if n.Available() {
			free := n.Free()
			o.Stranded += max(float64(free.TotalGPUMilli())-e.gpus.perCPU*float64(max(free.MilliCPU, 0)), 0) / float64(total)
		}
	}
	count := func(pod int32) {
		switch r := e.deployment(pod).pod.Requests; {
		case r.GPU > 0:
			o.UnscheduledWhole++
		case r.GPUMilli > 0:
			o.UnscheduledShare++
		default:
			o.UnscheduledCPU++
		}
	}
	for _, pod := range e.waiting {
		count(pod)
	}
	if !e.Done() {
		count(e.pending)
	}
	return o
}

// gpuCapacity is what the devices of the available nodes have to give.
func gpuCapacity(nodes []*cluster.Node) (milli int64) {
	for _, n := range nodes {
		if n.Available() {
			milli += n.Allocatable.TotalGPUMilli()
		}
	}
	return milli
}

// gpuAllocation is the fraction of it that is given.
func gpuAllocation(nodes []*cluster.Node) float64 {
	var given int64
	for _, n := range nodes {
		if n.Available() {
			given += n.Requested.TotalGPUMilli()
		}
	}
	return cluster.Fraction(given, gpuCapacity(nodes))
}
