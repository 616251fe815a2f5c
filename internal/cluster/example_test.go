package cluster_test

import (
	"fmt"

	"gnnsched/internal/cluster"
)

// A node with two GPUs takes pods until a resource runs out.
func ExampleNode_Fit() {
	node := &cluster.Node{
		Name:        "gpu-0",
		Allocatable: cluster.Resources{MilliCPU: 8000, Memory: 32 << 30, GPU: 2, Pods: 110},
		GPUModel:    "T4",
		GPUs:        make([]int64, 2), // two idle devices
		Version:     cluster.NextVersion(),
	}
	share := &cluster.Pod{
		Name:      "share",
		Requests:  cluster.Resources{MilliCPU: 1000, Memory: 4 << 30, GPUMilli: 400, Pods: 1},
		GPUModels: []string{"T4", "A10"},
	}
	whole := &cluster.Pod{
		Name:     "whole",
		Requests: cluster.Resources{MilliCPU: 2000, Memory: 8 << 30, GPU: 1, Pods: 1},
	}
	for _, pod := range []*cluster.Pod{share, whole, whole, share} {
		if reason := node.Fit(pod); reason != cluster.Fits {
			fmt.Printf("%s does not fit: %s\n", pod.Name, reason)
			continue
		}
		devices := node.Add(pod.Requests)
		fmt.Printf("%s: devices %02b, used thousandths %v\n", pod.Name, devices, node.GPUs)
	}
	fmt.Printf("free: %d m CPU, %s memory\n", node.Free().MilliCPU, cluster.FormatMemory(node.Free().Memory))
	// Output:
	// share: devices 01, used thousandths [400 0]
	// whole: devices 10, used thousandths [400 1000]
	// whole does not fit: insufficient gpu
	// share: devices 01, used thousandths [800 1000]
	// free: 4000 m CPU, 16Gi memory
}
