package run

import (
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

// BalanceEnv returns the clusters and workloads that gnntrain learns on by default. The objective is
// balance. Clusters have 4 to 32 nodes of one to three sizes. A few kinds of pods fill them to
// between a quarter and nearly all of their capacity; then as many pods again arrive while others
// leave. The shipped networks learn on scenarios of package eval instead (see the folder learn/runs).
func BalanceEnv() sim.Config {
	return sim.Config{
		Nodes: sim.IntRange{Min: 4, Max: 32},
		Sizes: []sim.NodeSize{
			{Weight: 3, Allocatable: sim.AAMLNode},
			{Weight: 2, Allocatable: cluster.Resources{MilliCPU: 32_000, Memory: 128 << 30, Pods: 110}},
			{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 16_000, Memory: 128 << 30, Pods: 110}},
			{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 96_000, Memory: 192 << 30, Pods: 250}},
		},
		SizeKinds: sim.IntRange{Min: 1, Max: 3}, Zones: sim.IntRange{Min: 1, Max: 3}, ControlPlane: true, Initial: 0.2,
		Shapes: []workload.Shape{
			shape("web", 4, 250, 512), shape("api", 3, 500, 1024), shape("worker", 2, 1000, 2048), shape("cache", 2, 500, 4096),
			shape("batch", 1, 2000, 2048), shape("one", 2, 1000, 4096), shape("large", 1, 4000, 16384), shape("memory", 1, 1000, 16384),
		},
		ShapeKinds: sim.IntRange{Min: 1, Max: 5}, Replicas: sim.IntRange{Min: 5, Max: 15},
		Load: sim.FloatRange{Min: 0.25, Max: 0.95}, Turnover: 1,
		Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}},
	}
}

func shape(name string, weight float64, milliCPU, mebibytes int64) workload.Shape {
	return workload.Shape{Name: name, Weight: weight, Requests: cluster.Resources{MilliCPU: milliCPU, Memory: mebibytes << 20, Pods: 1}}
}
