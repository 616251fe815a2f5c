package heuristic

import "gnnsched/internal/cluster"

var gpuClustering = Heuristic{
	Name:  "gpu-clustering",
	About: "pods that request the same number of GPUs together",
	New:   fromNodeScore("gpu-clustering", clustering),
	GPU:   true, NotImitable: needsGPUs,
}

// clustering keeps similar pods together: pods that request the same number of GPUs, or all pods
// that request a share of one. A pod without GPUs scores 0 everywhere. Any other pod scores by the
// pods with GPUs that the node runs:
//
//	75 to 100  only similar ones
//	50 to 75   similar ones and others
//	25 to 50   none
//	0 to 25    only others
//
// Within a band the score rises with the allocation of the node's devices after placement.
func clustering(n *cluster.Node, r cluster.Resources) int64 {
	if r.TotalGPUMilli() == 0 {
		return 0
	}
	similar, others := false, false
	for _, g := range n.Groups {
		switch {
		case g.Each.TotalGPUMilli() == 0:
		case g.Each.GPU == r.GPU:
			similar = true
		default:
			others = true
		}
	}
	band := int64(0)
	switch {
	case similar && !others:
		band = 75
	case similar:
		band = 50
	case !others:
		band = 25
	}
	total := cluster.DeviceMilli * int64(len(n.GPUs))
	return band + int64(25*cluster.Fraction(total-n.IdleGPUMilli()+r.TotalGPUMilli(), total))
}
