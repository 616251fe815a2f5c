package sim

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
)

// Outcome describes how an episode went. Fractions are requested / allocatable of the available
// nodes, which excludes the control plane. Variances are of the population, not of a sample.
//
// Means over time are over the time after the fill. Without any time after it, they are the values
// at the end.
type Outcome struct {
	CPUVariance float64 `json:"cpuVariance"` // of the nodes' CPU fractions
	CPUStd      float64 `json:"cpuStd"`      // its square root
	MemoryStd   float64 `json:"memoryStd"`   // of the nodes' memory fractions
	Imbalance   float64 `json:"imbalance"`   // mean of objective.Balance over time
	Cost        float64 `json:"cost"`        // of the configured objective, at the end
	MeanCost    float64 `json:"meanCost"`    // mean of that cost over time
	NodesInUse  int     `json:"nodesInUse"`  // available nodes that run pods, at the end
	Nodes       int     `json:"nodes"`       // available nodes

	MeanNodesInUse float64 `json:"meanNodesInUse"` // mean of NodesInUse over time
	Pending        float64 `json:"pending"`        // mean number of waiting pods over time
	Waiting        float64 `json:"waiting"`        // mean over time of what they request, as a share of what the cluster offers; see objective.Waiting
	// Room is the number of large pods that still fit, as a fraction of the number that would fit on
	// the empty nodes. A large pod requests a quarter of the largest node (objective.Room).
	Room          float64 `json:"room"`
	Fragmentation float64 `json:"fragmentation"` // objective.Fragmentation
	ZoneStd       float64 `json:"zoneStd"`       // objective.Zones

	Arrived     int `json:"arrived"`     // pods that have arrived
	Placed      int `json:"placed"`      // pods that got a node and did not lose it
	Unscheduled int `json:"unscheduled"` // pods without a node
	Waited      int `json:"waited"`      // pods that got their node late or not at all
	Evicted     int `json:"evicted"`     // pods whose node was lost

	GPU    *GPUOutcome    `json:"gpu,omitempty"`    // nil on a cluster without GPUs
	Steady *SteadyOutcome `json:"steady,omitempty"` // nil without Steady
	Usage  *UsageOutcome  `json:"usage,omitempty"`  // nil without Config.Usage

	Traffic *TrafficOutcome `json:"traffic,omitempty"` // nil without Config.Traffic

	Partitions *PartitionOutcome `json:"partitions,omitempty"` // nil on a cluster without MIG
	Moves      *MovesOutcome     `json:"moves,omitempty"`      // nil without Every
}

// Outcome measures the episode so far. Once the episode is Done, this is its result.
func (e *Env) Outcome() Outcome {
	o := Measure(e.snapshot.Nodes)
	o.Cost = e.cfg.Objective.Cost(e.snapshot.Nodes)
	o.MeanCost = o.Cost
	o.Pending = float64(len(e.waiting))
	o.Arrived = e.clock
	o.Placed = e.placed
	o.Unscheduled = e.clock - e.placed
	o.Waited = e.waited
	o.Evicted = e.evicted
	for _, p := range e.parts {
		p.report(e, &o)
	}
	return o
}

// Measure returns the part of an outcome that depends only on the present state of the nodes.
func Measure(nodes []*cluster.Node) Outcome {
	o := Outcome{
		Imbalance:     objective.Balance{}.Cost(nodes),
		Fragmentation: objective.Fragmentation{}.Cost(nodes),
		Room:          objective.Room(nodes),
		ZoneStd:       objective.Zones{}.Cost(nodes),
	}
	var cpu, mem []float64
	for _, n := range nodes {
		if !n.Available() {
			continue
		}
		cpu = append(cpu, cluster.Fraction(n.Counted().MilliCPU, n.Allocatable.MilliCPU))
		mem = append(mem, cluster.Fraction(n.Counted().Memory, n.Allocatable.Memory))
		if o.Nodes++; n.Requested.Pods > 0 {
			o.NodesInUse++
		}
	}
	if o.Nodes > 0 {
		o.CPUVariance, o.CPUStd = stat.PopVariance(cpu, nil), stat.PopStdDev(cpu, nil)
		o.MemoryStd = stat.PopStdDev(mem, nil)
	}
	o.MeanNodesInUse = float64(o.NodesInUse)
	return o
}

// timeMeans sums up values over time, for the means in an outcome.
type timeMeans struct {
	quiet
	balance, pack  objective.Tracker
	idle, ordinary objective.Tracker // nil without GPUs
	nodes          float64           // available nodes
	timeTotals
}

// timeTotals are values times the time for which they lasted.
type timeTotals struct {
	time                            float64 // observed so far
	imbalance, cost, inUse, waiting float64
	waitingShare                    float64
	idleGPUs, ordinaryImbalance     float64 // 0 without GPUs
}

func (m *timeMeans) track(e *Env) {
	nodes := e.snapshot.Nodes
	m.balance = objective.Balance{}.Track(nodes)
	m.pack = objective.Pack{}.Track(nodes)
	m.idle, m.ordinary = nil, nil
	if slices.ContainsFunc(nodes, func(n *cluster.Node) bool { return n.Allocatable.GPU > 0 }) {
		m.idle, m.ordinary = objective.GPUIdle{}.Track(nodes), objective.Ordinary{}.Track(nodes)
	}
	m.nodes = 0
	for _, n := range nodes {
		if n.Available() {
			m.nodes++
		}
	}
}

func (m *timeMeans) copyFor(e *Env, _ []part) part {
	c := &timeMeans{timeTotals: m.timeTotals}
	c.track(e)
	return c
}

func (m *timeMeans) placed(_ *Env, _, row int32) { m.update(int(row)) }

func (m *timeMeans) left(_ *Env, _, row int32) { m.update(int(row)) }

// update records that a node has changed.
func (m *timeMeans) update(row int) {
	m.balance.Update(row)
	m.pack.Update(row)
	if m.idle != nil {
		m.idle.Update(row)
		m.ordinary.Update(row)
	}
}

func (m *timeMeans) pass(e *Env, until float64) {
	time := until - e.now
	m.time += time
	m.imbalance += time * m.balance.Cost()
	m.cost += time * e.cost
	m.inUse += time * m.nodes * m.pack.Cost()
	m.waiting += time * float64(len(e.waiting))
	m.waitingShare += time * e.queue.share
	if m.idle != nil {
		m.idleGPUs += time * m.idle.Cost()
		m.ordinaryImbalance += time * m.ordinary.Cost()
	}
}

func (m *timeMeans) report(_ *Env, o *Outcome) {
	if m.time == 0 {
		return
	}
	o.Imbalance = m.imbalance / m.time
	o.MeanCost = m.cost / m.time
	o.MeanNodesInUse = m.inUse / m.time
	o.Pending = m.waiting / m.time
	o.Waiting = m.waitingShare / m.time
	if o.GPU != nil {
		o.GPU.MeanIdle, o.GPU.OrdinaryImbalance = m.idleGPUs/m.time, m.ordinaryImbalance/m.time
	}
}

// Relative returns the loss of an outcome against another one of the same episode: the ratio of the costs, at the end plus over time, and
// the share of the pods that waited more, times waits.
func (o Outcome) Relative(than Outcome, waits float64) float64 {
	const least = 1e-4 // bounds the ratio in an episode that the other one ends without cost
	late := float64(o.Waited-than.Waited) / float64(max(o.Arrived, 1))
	return (o.Cost+o.MeanCost+least)/(than.Cost+than.MeanCost+least) + waits*late
}

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
