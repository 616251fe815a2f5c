package sim

import (
	"math"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
)

// GPUOutcome describes how the GPUs were used in an episode. Fractions are fractions of all devices
// of the open nodes: nodes that are not cordoned and whose taints some of the workload's GPU pods tolerate.
type GPUOutcome struct {
	Allocation float64 `json:"allocation"` // allocated to the running pods
	// AllocationAtFull is the allocation at the time when the pods that had arrived first
	// requested all GPUs there are; 0 if they never did.
	AllocationAtFull float64 `json:"allocationAtFull"`
	// Stranded is the idle GPUs on nodes without enough CPU to use them, at the mean ratio of CPU
	// to GPU that the episode's GPU pods request.
	Stranded float64 `json:"stranded"`

	// MeanIdle is the mean over time of objective.GPUIdle, and OrdinaryImbalance that of objective.Ordinary.
	MeanIdle          float64 `json:"meanIdle"`
	OrdinaryImbalance float64 `json:"ordinaryImbalance"`

	UnscheduledCPU   int `json:"unscheduledCPU"`   // pods without a node that request no GPU
	UnscheduledShare int `json:"unscheduledShare"` // pods that request a share of a device
	UnscheduledWhole int `json:"unscheduledWhole"` // pods that request whole devices

	Loads []GPULoad `json:"loads,omitempty"` // at each of OpenB.Loads that the arrivals have reached
}

// gpuDemand tracks how much GPU the arriving pods request, in thousandths of a device.
type gpuDemand struct {
	quiet
	capacity  int64
	requested int64
	atFull    float64 // the allocation when the requests reached the capacity
	full      bool
	perCPU    float64 // the ratio of GPU to CPU that the episode's GPU pods request
}

func newGPUDemand(e *Env) *gpuDemand {
	d := &gpuDemand{capacity: e.gpuCapacity()}
	var cpu, gpu int64
	for _, i := range e.arrivals.pods {
		if r := e.arrivals.deployments[i].pod.Requests; r.TotalGPUMilli() > 0 {
			cpu, gpu = cpu+r.MilliCPU, gpu+r.TotalGPUMilli()
		}
	}
	d.perCPU = cluster.Fraction(gpu, cpu)
	return d
}

func (d *gpuDemand) copyFor(_ *Env, old []part) part {
	c := reused[gpuDemand](old)
	*c = *d
	return c
}

func (d *gpuDemand) arrives(e *Env, pod int32) {
	d.settle(e)
	d.requested += e.deployment(pod).pod.Requests.TotalGPUMilli()
}

// settle records the allocation once the requests have reached the capacity.
func (d *gpuDemand) settle(e *Env) {
	if !d.full && d.requested >= d.capacity {
		d.full, d.atFull = true, e.gpuAllocation()
	}
}

func (d *gpuDemand) report(e *Env, out *Outcome) {
	nodes, total := e.snapshot.Nodes, e.gpuCapacity()
	if total == 0 {
		return
	}
	d.settle(e)
	o := &GPUOutcome{Allocation: e.gpuAllocation(), AllocationAtFull: d.atFull, Loads: d.loads(e)}
	out.GPU = o
	o.MeanIdle, o.OrdinaryImbalance = objective.GPUIdle{}.Cost(nodes), objective.Ordinary{}.Cost(nodes)
	for _, n := range nodes {
		if e.typical.Open(n) {
			free := n.Free()
			o.Stranded += max(float64(free.TotalGPUMilli())-d.perCPU*float64(max(free.MilliCPU, 0)), 0) / float64(total)
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
}

// gpuCapacity returns the capacity of the open nodes' devices, in thousandths of a device.
func (e *Env) gpuCapacity() (milli int64) {
	for _, n := range e.snapshot.Nodes {
		if e.typical.Open(n) {
			milli += n.Allocatable.TotalGPUMilli()
		}
	}
	return milli
}

// gpuAllocation returns the fraction of that capacity that is allocated.
func (e *Env) gpuAllocation() float64 {
	var allocated int64
	for _, n := range e.snapshot.Nodes {
		if e.typical.Open(n) {
			allocated += n.Requested.TotalGPUMilli()
		}
	}
	return cluster.Fraction(allocated, e.gpuCapacity())
}

// The classes of GPU pods that GPULoad counts. A pod that names GPU models counts in its size and as classNamed.
const (
	classShare = iota // a part of a device
	classOne          // a whole device
	classTwo          // 2 or 3 devices
	classFour         // 4 to 7 devices
	classEight        // 8 devices or more
	classNamed        // a GPU pod of any size that names GPU models

	Classes = iota // their number
)

// classOf returns the size of a pod's GPU request; -1 without one.
func classOf(r cluster.Resources) int {
	switch {
	case r.GPU >= 8:
		return classEight
	case r.GPU >= 4:
		return classFour
	case r.GPU >= 2:
		return classTwo
	case r.GPU == 1:
		return classOne
	case r.GPUMilli > 0:
		return classShare
	}
	return -1
}

// GPULoad describes an episode at the time when the arrivals had requested so much of the GPUs.
type GPULoad struct {
	Load       float64      `json:"load"`       // GPUs requested / GPUs; at least this much
	Allocation float64      `json:"allocation"` // GPUs allocated / GPUs
	Left       [Classes]int `json:"left"`       // GPU pods without a node, by class
	Watts      float64      `json:"watts"`      // drawn by all nodes; see package power
	MeanWatts  float64      `json:"meanWatts"`  // mean of Watts until then, over the GPUs requested
	Bound      float64      `json:"bound"`      // no policy that places every pod that fits allocates more; see openb.Bound
}

// loads returns the state of the episode at each of OpenB.Loads that it has reached. No pod leaves, and
// a pod is placed only when it arrives. So an end there would have given the same state.
func (g *gpuDemand) loads(e *Env) (out []GPULoad) {
	if e.cfg.OpenB == nil || len(e.cfg.OpenB.Loads) == 0 {
		return nil
	}
	loads := e.cfg.OpenB.Loads
	var requested, allocated int64
	var left [Classes]int
	draw := e.newPowerMeter()
	for i := range e.arrivals.pods[:e.clock] {
		p := &e.deployment(int32(i)).pod
		asked := p.Requests.TotalGPUMilli()
		requested += asked
		if e.on[i] >= 0 {
			allocated += asked
			draw.place(e.on[i], p.Requests, e.devices[i])
		} else if c := classOf(p.Requests); c >= 0 {
			left[c]++
			if len(p.GPUModels) > 0 {
				left[classNamed]++
			}
		}
		draw.pass(asked)
		for len(out) < len(loads) && requested >= int64(math.Ceil(loads[len(out)]*float64(g.capacity))) {
			load := loads[len(out)]
			out = append(out, GPULoad{load, cluster.Fraction(allocated, g.capacity), left, draw.watts, draw.mean(), e.cfg.OpenB.bound(load, e.seed)})
		}
	}
	return out
}

// powerMeter measures the power of the nodes while the pods of an episode are placed again. It measures nothing
// if nodes were lost.
type powerMeter struct {
	nodes  []*cluster.Node
	watts  float64 // of all nodes
	energy float64 // watts × thousandths of devices that were requested meanwhile
	time   int64   // these thousandths
}

func (e *Env) newPowerMeter() (m powerMeter) {
	if e.lost { // the rows have changed
		return m
	}
	m.nodes = e.source.nodes(e.seed)
	for _, n := range m.nodes {
		m.watts += cluster.Watts(n)
	}
	return m
}

// place puts a pod on the node of a row.
func (m *powerMeter) place(row int32, r cluster.Resources, on cluster.DeviceSet) {
	if m.nodes == nil {
		return
	}
	n := m.nodes[row]
	m.watts -= cluster.Watts(n)
	n.AddOn(r, on)
	m.watts += cluster.Watts(n)
}

// pass lets the time pass in which so much was requested.
func (m *powerMeter) pass(asked int64) {
	m.energy += m.watts * float64(asked)
	m.time += asked
}

func (m *powerMeter) mean() float64 { return m.energy / max(float64(m.time), 1) }
