package policytest

import "gnnsched/internal/cluster"

// GPUNode returns a node with the given thousandths of a CPU and number of devices, on which pods
// with the given requests run.
func GPUNode(cpu, devices int64, running ...cluster.Resources) *cluster.Node {
	n := &cluster.Node{Allocatable: cluster.Resources{MilliCPU: cpu, Memory: 1 << 40, GPU: devices, Pods: 100}, GPUs: make([]int64, devices),
		Version: cluster.NextVersion()}
	for _, r := range running {
		n.Add(r)
	}
	return n
}

// Whole returns the requests of a pod for one CPU and whole devices.
func Whole(devices int64) cluster.Resources {
	return cluster.Resources{MilliCPU: 1000, GPU: devices, Pods: 1}
}

// Share returns the requests of a pod for one CPU and a share of a device, in thousandths.
func Share(milli int64) cluster.Resources {
	return cluster.Resources{MilliCPU: 1000, GPUMilli: milli, Pods: 1}
}
