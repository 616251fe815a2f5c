package objective

import (
	"gnnsched/internal/cluster"
)

// energy measures the nodes' present power as a fraction of their power at full load. A node's CPU in use is the measured CPU plus the
// expected use of pods bound since, or its pods' requests if nothing was measured.
type energy struct{}

// Name implements Term.
func (energy) Name() string { return "energy" }

// About implements Described.
func (energy) About() string {
	return "what the nodes draw as a share of what they draw at full load, by measured CPU or else by requests"
}

// Cost implements Term.
func (energy) Cost(nodes []*cluster.Node) float64 {
	var watts, full float64
	for _, n := range nodes {
		if n.Available() {
			watts += Watts(n)
			full += cluster.FullPower(n)
		}
	}
	if full == 0 {
		return 0
	}
	return watts / full
}

// Watts returns a node's power.
func Watts(n *cluster.Node) float64 {
	capacity := n.Capacity(cluster.UsedCPU)
	if capacity <= 0 {
		return cluster.CPUDraw(n, 0)
	}
	return cluster.CPUDraw(n, n.Used(cluster.UsedCPU).Mean/capacity)
}
