package heuristic

import "gnnsched/internal/cluster"

var gpuPacking = Heuristic{
	Name:  "gpu-packing",
	About: "devices in use before idle devices, and idle nodes last",
	New:   fromNodeScore("gpu-packing", packing),
	GPU:   true, NotImitable: needsGPUs,
}

// packing prefers devices in use, then idle devices of nodes in use, then idle nodes. A pod without
// GPUs scores 0 everywhere. Any other pod scores
//
//	on devices in use   100 - a tenth of the percentage that they have left, at least 50
//	on k idle devices   50 - k, at least 33, if other devices of the node are in use
//	on an idle node     33 - the number of its devices
func packing(n *cluster.Node, r cluster.Resources) int64 {
	on := n.ChooseDevices(r)
	if on == 0 {
		return 0
	}
	var idle int64 // number of idle devices that the pod would use
	var free int64 // room on the devices in use that the pod would use
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
