package heuristic

import (
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
)

var gpuDotProduct = Heuristic{
	Name: "gpu-dot-product", About: "the node whose free CPU and GPU lie least along the pod's",
	New: func(policy.Setting) policy.Policy {
		return &gpuScore{name: "gpu-dot-product", compute: dotProductOfGPUs}
	},
	GPU: true, NotImitable: needsGPUs,
}

// dotProductOfGPUs prefers the node whose resources left before placement lie least along the
// pod's:
//
//	⌊100 · (1 - ½·(CPU left · pod's CPU / (128 cores)² + GPU left · pod's GPU / (8 devices)²))⌋
func dotProductOfGPUs(n *cluster.Node, r cluster.Resources) int64 {
	cpu, gpu := left(n)
	along := cpu*float64(r.MilliCPU)/(largestMilliCPU*largestMilliCPU) + gpu*float64(r.TotalGPUMilli())/(largestGPUMilli*largestGPUMilli)
	return int64(maxNodeScore * (1 - along/2))
}
