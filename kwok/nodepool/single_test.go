package nodepool

import (
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// Translated back, the simulated nodes equal the nodes that they were made from.
func TestSingle(t *testing.T) {
	nodes := []*cluster.Node{
		{Name: "node-0000", Allocatable: cluster.Resources{MilliCPU: 96_000, Memory: 1 << 30, GPU: 8, Pods: 1001}, GPUModel: "G2", GPUs: make([]int64, 8)},
		{Name: "node-0001", Allocatable: cluster.Resources{MilliCPU: 32_000, Memory: 2 << 30, Pods: 1001}},
	}
	pools := Single(nodes)
	if err := Validate(pools); err != nil {
		t.Fatal(err)
	}
	for i, p := range pools {
		want := nodes[i]
		n := p.node(0)
		got := kube.Node(n)
		if got.Allocatable != want.Allocatable || got.GPUModel != want.GPUModel || len(got.GPUs) != len(want.GPUs) {
			t.Errorf("%s became %+v", want.Name, got)
		}
		if name := want.Name + "-0"; n.Name != name {
			t.Errorf("%s is named %s, want %s", want.Name, n.Name, name)
		}
	}
}
