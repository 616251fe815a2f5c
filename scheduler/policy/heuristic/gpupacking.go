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

var gpuBestFit = Heuristic{
	Name:  "gpu-best-fit",
	About: "the node with the least CPU and GPU left",
	New:   fromNodeScore("gpu-best-fit", leastGPULeft),
	GPU:   true, NotImitable: needsGPUs,
}

// leastGPULeft prefers the node with the least CPU and GPU left after placement:
//
//	⌊100 · (1 - ½·CPU left / 128 cores - ½·GPU left / 8 devices)⌋
func leastGPULeft(n *cluster.Node, r cluster.Resources) int64 {
	cpu, gpu := left(n)
	return int64(maxNodeScore * (1 - (cpu-float64(r.MilliCPU))/(2*largestMilliCPU) - (gpu-float64(r.TotalGPUMilli()))/(2*largestGPUMilli)))
}

var gpuDotProduct = Heuristic{
	Name:  "gpu-dot-product",
	About: "the node whose free CPU and GPU are least aligned with the pod's requests",
	New:   fromNodeScore("gpu-dot-product", gpuMisalignment),
	GPU:   true, NotImitable: needsGPUs,
}

// gpuMisalignment prefers the node whose resources left before placement have the smallest dot
// product with the pod's requests:
//
//	⌊100 · (1 - ½·(CPU left · pod's CPU / (128 cores)² + GPU left · pod's GPU / (8 devices)²))⌋
func gpuMisalignment(n *cluster.Node, r cluster.Resources) int64 {
	cpu, gpu := left(n)
	along := cpu*float64(r.MilliCPU)/(largestMilliCPU*largestMilliCPU) + gpu*float64(r.TotalGPUMilli())/(largestGPUMilli*largestGPUMilli)
	return int64(maxNodeScore * (1 - along/2))
}
