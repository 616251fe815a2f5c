package linear

import (
	"gnnsched/internal/cluster"
)

// energyView holds what the feature energy of all candidates has in common.
type energyView struct {
	meanFull float64 // what an available node draws at full load, in watts
	milliCPU float64 // that the pod is expected to use
}

// newEnergyView returns the view of the available nodes for a pod.
func newEnergyView(s *cluster.Snapshot, pod *cluster.Pod) *energyView {
	var nodes, full float64
	for _, n := range s.Nodes {
		if n.Available() {
			nodes, full = nodes+1, full+cluster.FullPower(n)
		}
	}
	return &energyView{full / max(nodes, 1), pod.Expected(cluster.UsedCPU)}
}

// gainOf returns the feature energy of a node; 0 without a view.
func (v *energyView) gainOf(n *cluster.Node) float64 {
	if v == nil || v.meanFull == 0 {
		return 0
	}
	return -cluster.PowerRise(n, v.milliCPU) / v.meanFull
}
