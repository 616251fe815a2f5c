package main

import (
	"slices"
	"testing"

	"gnnsched/kwok/nodepool"
	"gnnsched/workload/trace/openb"
	"gnnsched/workload/trace/openb/openbtest"
)

// The nodes of a cluster made from a node list are valid and sort by name in the list's order.
func TestNodeListKeepsItsOrder(t *testing.T) {
	list, err := openb.LoadNodes(openbtest.File(t, "openb_node_list_gpu_node.csv"))
	if err != nil {
		t.Fatal(err)
	}
	pools := nodepool.Single(openb.ClusterNodes(openb.Sample(list, 200)), nodepool.InCapacity)
	if err := nodepool.Validate(pools); err != nil {
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
