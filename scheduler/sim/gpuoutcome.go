package sim

import "gnnsched/internal/cluster"

// GPUOutcome describes how the GPUs were used in an episode. Fractions are fractions of all devices
// of the available nodes.
type GPUOutcome struct {
	Allocation float64 `json:"allocation"` // allocated to the running pods
	// AllocationAtFull is the allocation at the time when the pods that had arrived first
	// requested all GPUs there are; 0 if they never did.
	AllocationAtFull float64 `json:"allocationAtFull"`
	// Stranded is the idle GPUs on nodes without enough CPU to use them, at the mean ratio of CPU
	// to GPU that the episode's GPU pods request.
	Stranded float64 `json:"stranded"`

	UnscheduledCPU   int `json:"unscheduledCPU"`   // pods without a node that request no GPU
	UnscheduledShare int `json:"unscheduledShare"` // pods that request a share of a device
	UnscheduledWhole int `json:"unscheduledWhole"` // pods that request whole devices
}

// gpuDemand tracks how much GPU the arriving pods request, in thousandths of a device.
type gpuDemand struct {
	capacity  int64
	requested int64
	atFull    float64 // the allocation when the requests reached the capacity
	full      bool
	perCPU    float64 // the ratio of GPU to CPU that the episode's GPU pods request
}

func newGPUDemand(nodes []*cluster.Node, a *arrivalList) (d gpuDemand) {
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

// arrive records one more pod. The pods before it must be placed or waiting.
func (d *gpuDemand) arrive(r cluster.Resources, nodes []*cluster.Node) {
	d.settle(nodes)
	d.requested += r.TotalGPUMilli()
}

// settle records the allocation once the requests have reached the capacity.
func (d *gpuDemand) settle(nodes []*cluster.Node) {
	if !d.full && d.capacity > 0 && d.requested >= d.capacity {
		d.full, d.atFull = true, gpuAllocation(nodes)
	}
}

// gpuOutcome returns the GPUs' part of the outcome; nil on a cluster without GPUs.
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

// gpuCapacity returns the capacity of the available nodes' devices, in thousandths of a device.
func gpuCapacity(nodes []*cluster.Node) (milli int64) {
	for _, n := range nodes {
		if n.Available() {
			milli += n.Allocatable.TotalGPUMilli()
		}
	}
	return milli
}

// gpuAllocation returns the fraction of that capacity that is allocated.
func gpuAllocation(nodes []*cluster.Node) float64 {
	var allocated int64
	for _, n := range nodes {
		if n.Available() {
			allocated += n.Requested.TotalGPUMilli()
		}
	}
	return cluster.Fraction(allocated, gpuCapacity(nodes))
}
