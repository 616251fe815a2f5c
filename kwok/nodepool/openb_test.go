package nodepool

import (
	"slices"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/workload/trace/openb"
	"gnnsched/workload/trace/openb/openbtest"
)

// The nodes of the pools are the machines of the list, as the scheduler reads them.
func TestOpenB(t *testing.T) {
	list := []openb.Node{{Name: "node-0000", MilliCPU: 96_000, MemoryMiB: 1024, GPUs: 8, Model: "G2"}, {Name: "node-0001", MilliCPU: 32_000, MemoryMiB: 2048}}
	pools := OpenB(list)
	if err := Validate(pools); err != nil {
		t.Fatal(err)
	}
	for i, p := range pools {
		n := p.node(0)
		got := cluster.Node{}
		kube.SetDevices(&got, n.Labels, kube.In(n.Status.Allocatable))
		a := n.Status.Allocatable
		got.Allocatable.MilliCPU, got.Allocatable.Memory, got.Allocatable.Pods = a.Cpu().MilliValue(), a.Memory().Value(), a.Pods().Value()
		if got.Allocatable != list[i].Allocatable() || got.GPUModel != list[i].Model || int64(len(got.GPUs)) != list[i].GPUs {
			t.Errorf("%s became %+v", list[i].Name, got)
		}
		if want := list[i].Name + "-0"; n.Name != want {
			t.Errorf("%s is called %s", list[i].Name, n.Name)
		}
	}
}

func TestOpenBKeepsTheOrder(t *testing.T) {
	list, err := openb.LoadNodes(openbtest.File(t, "openb_node_list_gpu_node.csv"))
	if err != nil {
		t.Fatal(err)
	}
	pools := OpenB(openb.Sample(list, 200))
	if err := Validate(pools); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range pools {
		names = append(names, p.NodeName(0))
	}
	if len(names) < 200 || len(names) > 210 || !slices.IsSorted(names) {
		t.Errorf("%d nodes, sorted by name: %v", len(names), slices.IsSorted(names))
	}
}
