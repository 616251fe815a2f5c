package sim

import (
	"gonum.org/v1/gonum/stat"

	"gnnsched/scheduler/cluster"
	"gnnsched/scheduler/objective"
)

// Outcome is how an episode went. Fractions are requested / allocatable of the available
// nodes (not the control plane); variances are of the population, not of a sample.
type Outcome struct {
	CPUVariance float64 `json:"cpuVariance"` // of the nodes' CPU fractions
	CPUStd      float64 `json:"cpuStd"`      // its square root
	MemoryStd   float64 `json:"memoryStd"`
	// Imbalance is objective.Balance averaged over the arrivals after the fill, or at the
	// end where none came: what the cluster was like, not only how it was left.
	Imbalance  float64 `json:"imbalance"`
	Cost       float64 `json:"cost"` // of the configured objective
	NodesInUse int     `json:"nodesInUse"`
	Nodes      int     `json:"nodes"` // available

	Arrived     int `json:"arrived"` // pods, so far
	Placed      int `json:"placed"`
	Unscheduled int `json:"unscheduled"` // pods without a node
	Waited      int `json:"waited"`      // pods that got their node late or not at all
}

// Outcome measures the episode as it stands; when Done, that is its result.
func (e *Env) Outcome() Outcome {
	o := Measure(e.snapshot.Nodes)
	o.Cost = e.cfg.Objective.Cost(e.snapshot.Nodes)
	if e.spread.n > 0 {
		o.Imbalance = e.spread.sum / e.spread.n
	}
	o.Arrived, o.Placed, o.Waited = e.clock, e.placed, e.waited
	o.Unscheduled = e.clock - e.placed
	return o
}

// Measure is the part of an outcome that the state of the nodes alone decides.
func Measure(nodes []*cluster.Node) Outcome {
	o := Outcome{Imbalance: objective.Balance{}.Cost(nodes)}
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
	return o
}

// overTime averages the imbalance over arrivals.
type overTime struct {
	balance objective.Tracker
	n, sum  float64
}

func newOverTime(nodes []*cluster.Node) overTime {
	return overTime{balance: objective.Balance{}.Track(nodes)}
}

func (o *overTime) update(row int) { o.balance.Update(row) }

func (o *overTime) observe() {
	o.n++
	o.sum += o.balance.Cost()
}
