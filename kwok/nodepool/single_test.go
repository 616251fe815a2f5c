package nodepool

import (
	"fmt"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
)

// Translated back, the simulated nodes equal the nodes that they were made from.
func TestSingle(t *testing.T) {
	nodes := []*cluster.Node{
		{Name: "node-0000", Allocatable: cluster.Resources{MilliCPU: 96_000, Memory: 1 << 30, GPU: 8, Pods: 1001}, GPUModel: "G2",
			GPUs: make([]int64, 8)},
		{Name: "node-0001", Allocatable: cluster.Resources{MilliCPU: 32_000, Memory: 2 << 30, Pods: 1001}},
	}
	pools := Single(nodes, InCapacity)
	fatal.If(t, Validate(pools))
	for i, p := range pools {
		want := nodes[i]
		n := p.Node(0)
		got := kube.Node(n)
		if got.Allocatable != want.Allocatable || got.GPUModel != want.GPUModel || len(got.GPUs) != len(want.GPUs) {
			t.Errorf("%s became %+v", want.Name, got)
		}
		if name := want.Name + "-0"; n.Name != name {
			t.Errorf("%s is named %s, want %s", want.Name, n.Name, name)
		}
	}
}

// By turns, nodes with GPUs offer them in both ways and in slices only. Nodes without GPUs have no turn.
func TestSingleOffersByTurns(t *testing.T) {
	var nodes []*cluster.Node
	for i, gpus := range []int64{2, 0, 2, 2} {
		nodes = append(nodes,
			&cluster.Node{Name: fmt.Sprint("n", i), Allocatable: cluster.Resources{MilliCPU: 1000, Memory: 1 << 30, GPU: gpus, Pods: 10}})
	}
	var got [][2]int64
	for i, p := range Single(nodes, InTurns) {
		inSlices := 0
		for _, s := range p.resourceSlices(fmt.Sprintf("n%d-0", i)) {
			inSlices += len(s.Spec.Devices)
		}
		got = append(got, [2]int64{kube.Node(p.Node(0)).Allocatable.GPU, int64(inSlices)})
	}
	if want := [][2]int64{{2, 2}, {0, 0}, {0, 2}, {2, 2}}; !slices.Equal(got, want) {
		t.Errorf("GPUs in the capacity and in slices: %v, want %v", got, want)
	}
}

// Nodes offer their GPUs in their capacity, in slices with a thousand shares of each device, or both.
func TestSingleOffers(t *testing.T) {
	node := &cluster.Node{
		Name: "n", Allocatable: cluster.Resources{MilliCPU: 1000, Memory: 1 << 30, GPU: 2, Pods: 10}, GPUModel: "T4", GPUs: make([]int64, 2),
	}
	for offer, want := range map[Offer][2]int64{InCapacity: {2, 0}, InSlices: {0, 2}, InBoth: {2, 2}} {
		pools := Single([]*cluster.Node{node}, offer)
		fatal.If(t, Validate(pools))
		var published []resourceapi.ResourceSlice
		for _, s := range pools[0].resourceSlices("n-0") {
			published = append(published, *s)
		}
		n := kube.Node(pools[0].Node(0))
		if got := [2]int64{n.Allocatable.GPU, kube.GPUsInSlices(published)["n-0"]}; got != want || pools[0].Labels[kube.GPUModelLabel] != "T4" {
			t.Errorf("%s: %d GPUs in the capacity, %d in slices, labels %v", offer, got[0], got[1], pools[0].Labels)
		}
		for _, s := range published {
			for _, d := range s.Spec.Devices {
				if q := d.Capacity[kube.GPUSharesCapacity].Value; q.Value() != 1000 || *d.Attributes[kube.GPUProductAttribute].StringValue != "T4" {
					t.Errorf("%s: %+v", offer, d)
				}
			}
		}
	}
}
