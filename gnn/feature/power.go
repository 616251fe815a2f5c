package feature

import (
	"math"

	"gnnsched/internal/cluster"
)

func init() { Register(powers) }

// powers describes what machines draw and what a placement adds.
var powers = &Set{
	Name:      "power",
	Doc:       "What the machines draw, which of them sleep, and by how much a placement raises it.",
	Version:   1,
	Node:      machineBlocks,
	Cluster:   []ClusterBlock{unusedBlock},
	Candidate: []CandidateBlock{{Features: powerFeatures[:], Fill: fillPower}},
}

// machineBlocks describe the power model of a machine.
var machineBlocks = []NodeBlock{
	One("log_watts", "log2(watts of a core at full load / 3.3), within ±4", func(n *Node) float32 {
		m := cluster.MachinePower(n.State)
		return float32(logRatio(m.Full*1000/max(float64(n.State.Allocatable.MilliCPU), 1), 3.3))
	}),
	inDomain(Fraction, One("idle_watts", "watts while nothing runs / watts at full load", func(n *Node) float32 {
		m := cluster.MachinePower(n.State)
		return float32(quotient(m.Idle, m.Full))
	})),
	inDomain(Flag, One("sleeps", "1 if the machine sleeps without pods, else 0",
		func(n *Node) float32 { return flag(cluster.MachinePower(n.State).Sleep != nil) })),
}

// unusedBlock describes how many machines are empty.
var unusedBlock = One("unused", "share of the available nodes that run no pod", func(c *Candidates) float32 { return c.all().unused() })

// powerFeatures describe a candidate once the pod is placed there.
var powerFeatures = [...]Feature{
	{Name: "rise", Doc: "watts that the placement adds / mean watts of an available node at full load, within ±4"},
	{Name: "watts", Doc: "log2(watts of a core at full load / mean over the available nodes), within ±4"},
	{Name: "wakes", Doc: "1 if the placement wakes the machine, else 0", In: Flag},
}

// fillPower writes the features of every candidate.
func fillPower(c *Candidates, out Rows) {
	full, expected := c.fullPower(), c.Pod.Expected(cluster.UsedCPU)
	for i, v := range c.Rows {
		n := c.Nodes[v]
		m := cluster.MachinePower(n)
		copy(out.Row(i), []float32{
			clamp(float32(quotient(cluster.PowerRise(n, expected), full.mean))),
			float32(logRatio(m.Full, full.core*float64(n.Allocatable.MilliCPU))),
			flag(m.Sleep != nil && n.Requested.Pods == 0),
		})
	}
}

// fullPower is the draw of the available nodes at full load, in watts.
type fullPower struct {
	mean float64 // of a node
	core float64 // of a thousandth of a core, over all nodes
}

// fullPower returns what the available nodes draw at full load.
func (c *Candidates) fullPower() fullPower {
	var nodes, watts, machines, milliCPU float64
	for _, n := range c.Nodes {
		if n.Available() {
			nodes++
			watts += cluster.FullPower(n)
			machines += cluster.MachinePower(n).Full
			milliCPU += float64(n.Allocatable.MilliCPU)
		}
	}
	return fullPower{watts / max(nodes, 1), math.Max(quotient(machines, milliCPU), 1e-9)}
}
