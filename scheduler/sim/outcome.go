package sim

import (
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
