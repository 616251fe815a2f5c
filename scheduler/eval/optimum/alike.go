package optimum

import (
	"maps"
	"slices"

	"gnnsched/internal/cluster"
)

// clone returns copies of nodes to which pods can be added.
func clone(nodes []*cluster.Node) []*cluster.Node {
	out := make([]*cluster.Node, len(nodes))
	for i, n := range nodes {
		c := *n
		c.Groups, c.GPUs = slices.Clone(n.Groups), slices.Clone(n.GPUs)
		out[i] = &c
	}
	return out
}

// sameNode tells whether two nodes differ in nothing but their names.
func sameNode(a, b *cluster.Node) bool {
	return a.Zone == b.Zone && a.Unschedulable == b.Unschedulable && a.Allocatable == b.Allocatable && a.Requested == b.Requested &&
		maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Taints, b.Taints) && slices.Equal(a.Groups, b.Groups) &&
		a.GPUModel == b.GPUModel && slices.Equal(a.GPUs, b.GPUs)
}

// samePod tells whether two pods differ in nothing but their names and owners. The optimum ignores
// preferences.
func samePod(a, b *cluster.Pod) bool {
	return a.Requests == b.Requests && maps.Equal(a.NodeSelector, b.NodeSelector) && slices.Equal(a.Tolerations, b.Tolerations) &&
		slices.Equal(a.GPUModels, b.GPUModels)
}
