package sim

import (
	"gonum.org/v1/gonum/stat"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
)

// Outcome is how an episode went. Fractions are requested / allocatable of the available
// nodes (not the control plane); variances are of the population, not of a sample.
type Outcome struct {
	CPUVariance float64 `json:"cpuVariance"` // of the nodes' CPU fractions
	CPUStd      float64 `json:"cpuStd"`      // its square root
	MemoryStd   float64 `json:"memoryStd"`
	// Imbalance is objective.Balance averaged over the time after the fill, or at the end
	// where nothing came after it: what the cluster was like, not only how it was left.
	Imbalance  float64 `json:"imbalance"`
	Cost       float64 `json:"cost"`     // of the configured objective
	MeanCost   float64 `json:"meanCost"` // the same, averaged over time as Imbalance is
	NodesInUse int     `json:"nodesInUse"`
	Nodes      int     `json:"nodes"` // available

	// MeanNodesInUse and Pending are averaged over time as Imbalance is.
	MeanNodesInUse float64 `json:"meanNodesInUse"`
	Pending        float64 `json:"pending"` // pods that waited
	// Room is how many large pods still fit, as a fraction of those that would fit on the
	// empty nodes: pods of a quarter of the largest node, as of objective.Fragmentation.
	Room          float64 `json:"room"`
	Fragmentation float64 `json:"fragmentation"` // objective.Fragmentation
	ZoneStd       float64 `json:"zoneStd"`       // objective.Zones

	Arrived     int `json:"arrived"` // pods, so far
	Placed      int `json:"placed"`
	Unscheduled int `json:"unscheduled"` // pods without a node
	Waited      int `json:"waited"`      // pods that got their node late or not at all
	Evicted     int `json:"evicted"`     // pods whose node went, so that they needed another one

	GPU *GPUOutcome `json:"gpu,omitempty"` // nil on a cluster without GPUs
}

// Outcome measures the episode as it stands; when Done, that is its result.
func (e *Env) Outcome() Outcome {
	o := Measure(e.snapshot.Nodes)
	o.Cost = e.cfg.Objective.Cost(e.snapshot.Nodes)
	o.MeanCost, o.Pending = o.Cost, float64(len(e.waiting))
	if m := e.means; m.time > 0 {
		o.Imbalance, o.MeanCost, o.MeanNodesInUse, o.Pending = m.imbalance/m.time, m.cost/m.time, m.inUse/m.time, m.waiting/m.time
	}
	o.Evicted = e.evicted
	o.Arrived, o.Placed, o.Waited = e.clock, e.placed, e.waited
	o.Unscheduled = e.clock - e.placed
	o.GPU = e.gpuOutcome()
	return o
}

// Measure is the part of an outcome that the state of the nodes alone decides.
func Measure(nodes []*cluster.Node) Outcome {
	o := Outcome{Imbalance: objective.Balance{}.Cost(nodes), Fragmentation: objective.Fragmentation{}.Cost(nodes), Room: objective.Room(nodes), ZoneStd: objective.Zones{}.Cost(nodes)}
	var cpu, mem []float64
	for _, n := range nodes {
		if !n.Available() {
			continue
		}
		cpu = append(cpu, cluster.Fraction(n.Requested.MilliCPU, n.Allocatable.MilliCPU))
		mem = append(mem, cluster.Fraction(n.Requested.Memory, n.Allocatable.Memory))
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

// overTime adds up, over time, what an outcome has the means of.
type overTime struct {
	balance, pack objective.Tracker
	nodes         float64 // available

	time, imbalance, cost, inUse, waiting float64
}

// follow goes on with other nodes.
func (o *overTime) follow(nodes []*cluster.Node) {
	o.balance, o.pack, o.nodes = objective.Balance{}.Track(nodes), objective.Pack{}.Track(nodes), 0
	for _, n := range nodes {
		if n.Available() {
			o.nodes++
		}
	}
}

func (o *overTime) update(row int) {
	o.balance.Update(row)
	o.pack.Update(row)
}

// observe adds a time during which nothing changed: not what waits, nor the objective's cost.
func (o *overTime) observe(time, cost float64, waiting int) {
	o.time += time
	o.imbalance += time * o.balance.Cost()
	o.cost += time * cost
	o.inUse += time * o.nodes * o.pack.Cost()
	o.waiting += time * float64(waiting)
}
