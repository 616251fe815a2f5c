package heuristic

import "gnnsched/internal/cluster"

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
