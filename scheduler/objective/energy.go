package objective

import (
	"gnnsched/internal/cluster"
	"gnnsched/internal/power"
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
	watts, full := Watts(nodes)
	if full == 0 {
		return 0
	}
	return watts / full
}

// Watts returns what the available nodes draw, and what they draw at full load.
func Watts(nodes []*cluster.Node) (now, full float64) {
	for _, n := range nodes {
		if n.Available() {
			now += drawn(n)
			full += power.Full(n)
		}
	}
	return now, full
}

// drawn returns a node's power, in watts.
func drawn(n *cluster.Node) float64 {
	capacity := n.Capacity(cluster.UsedCPU)
	if capacity <= 0 {
		return power.Draw(n, 0)
	}
	return power.Draw(n, n.Used(cluster.UsedCPU).Mean/capacity)
}
