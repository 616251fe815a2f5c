package encode_test

import (
	"fmt"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/encode"
)

// One encoder follows a cluster: after a placement it encodes the changed node again, and nothing
// else.
func ExampleEncoder() {
	offer := cluster.Resources{MilliCPU: 4000, Memory: 16 << 30, Pods: 110}
	snapshot := &cluster.Snapshot{Nodes: []*cluster.Node{
		{Name: "a", Version: cluster.NextVersion(), Allocatable: offer},
		{Name: "b", Version: cluster.NextVersion(), Allocatable: offer},
	}}
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Memory: 2 << 30, Pods: 1}}

	layout := feature.Default()
	encoder := encode.New(layout)
	for range 2 {
		g := encoder.Encode(snapshot, pod, []int32{0, 1}) // the pod may go on a or b
		for c, row := range g.Candidates {
			fmt.Printf("%s: %s would be %.2f\n", snapshot.Nodes[row].Name, feature.List(layout.Candidate)[0].Name, g.CandidateRow(c)[0])
		}
		snapshot.Nodes[0].Add(pod.Requests)
	}
	// Output:
	// a: cpu would be 0.25
	// b: cpu would be 0.25
	// a: cpu would be 0.50
	// b: cpu would be 0.25
}

// On the GPU graph a candidate is the node as it will be after the placement on some of its devices.
func ExampleStars() {
	node := &cluster.Node{
		Name: "gpu-0", Allocatable: cluster.Resources{MilliCPU: 32_000, Memory: 128 << 30, GPU: 2, Pods: 110}, GPUs: []int64{0, 600},
	}
	pod := cluster.Resources{MilliCPU: 4000, Memory: 8 << 30, GPUMilli: 300, Pods: 1}

	encoder := encode.NewStars(feature.DefaultGPU(), nil) // the workload is not known
	var before, after graph.GPUNode
	encoder.Node(&before, node, cluster.Resources{}, 0)
	encoder.Node(&after, node, pod, cluster.Device(1))
	fmt.Println("free parts of the devices:", before.Free, "then", after.Free)
	// Output:
	// free parts of the devices: [1 0.4] then [1 0.1]
}
