package heuristic

import (
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
)

var gpuPacking = Heuristic{
	Name: "gpu-packing", About: "devices in use before idle ones, and these before idle nodes",
	New: func(policy.Setting) policy.Policy { return &gpuScore{name: "gpu-packing", compute: packing} },
	GPU: true, NotImitable: needsGPUs,
}

// packing uses devices in use before idle devices of nodes in
// use, and these before idle nodes. A pod without GPU scores 0 everywhere. Otherwise the score
// is
//
//	on devices in use   100 - a tenth of the percentage that they have left, 50 or more
//	on k idle devices   50 - k, 33 or more, on a node of which other devices are in use
//	on an idle node     33 - the number of its devices
func packing(n *cluster.Node, r cluster.Resources) int64 {
	on := n.ChooseDevices(r)
	if on == 0 {
		return 0
	}
	var idle int64 // devices that the pod would begin to use
	var free int64 // on the others that it would use
	for i, used := range n.GPUs {
		switch {
		case !on.Has(i):
		case used == 0:
			idle++
		default:
			free += cluster.DeviceMilli - used
		}
	}
	switch devices := int64(len(n.GPUs)); {
	case n.IdleDevices() == devices:
		return max(33-devices, 0)
	case idle > 0:
		return max(50-idle, 33)
	}
	return max(maxNodeScore-free/100, 50)
}
