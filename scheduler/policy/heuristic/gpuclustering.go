package heuristic

import (
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
)

var gpuClustering = Heuristic{
	Name: "gpu-clustering", About: "pods that ask for as many GPUs together",
	New: func(policy.Setting) policy.Policy { return &gpuScore{name: "gpu-clustering", compute: clustering} },
	GPU: true, NotImitable: needsGPUs,
}

// clustering keeps pods that ask for as many GPUs (or for a share
// of one) together. A pod without GPU scores 0 everywhere. Otherwise, of the pods with GPUs, a
// node hosts
//
//	75 to 100  only such pods
//	50 to 75   such pods among others
//	25 to 50   none
//	0 to 25    only others
//
// and within a band it is the higher the fuller its devices are after placement.
func clustering(n *cluster.Node, r cluster.Resources) int64 {
	if r.TotalGPUMilli() == 0 {
		return 0
	}
	like, others := false, false
	for _, g := range n.Groups {
		switch {
		case g.Each.TotalGPUMilli() == 0:
		case g.Each.GPU == r.GPU:
			like = true
		default:
			others = true
		}
	}
	band := int64(0)
	switch {
	case like && !others:
		band = 75
	case like:
		band = 50
	case !others:
		band = 25
	}
	total := cluster.DeviceMilli * int64(len(n.GPUs))
	return band + int64(25*cluster.Fraction(total-n.IdleGPUMilli()+r.TotalGPUMilli(), total))
}
