package heuristic

import "gnnsched/internal/cluster"

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
