//go:build torch

package torch

import (
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
)

// graphs are the rows that layers read of a batch. The cluster has one for each graph.
type graphs struct{ *graph.Batch }

// count returns the number of vertices of a kind.
func (b graphs) count(kind checkpoint.Kind) int {
	switch kind {
	case checkpoint.Node:
		return len(b.NodeGraph)
	case checkpoint.Device:
		return len(b.DeviceNode)
	}
	return b.Size
}

// features returns the features of all vertices of a kind, a row each.
func (b graphs) features(s *Scope, kind checkpoint.Kind) *Tensor {
	x := b.ClusterX
	switch kind {
	case checkpoint.Node:
		x = b.NodeX
	case checkpoint.Device:
		x = interpolate(b.DeviceFree)
	}
	rows := b.count(kind)
	return s.Float32(x, rows, len(x)/rows)
}

// rows makes one row for each vertex of kind to from the rows of kind from: the sum of its devices' for a node, else the row of what the
// vertex belongs to.
func (b graphs) rows(s *Scope, from, to checkpoint.Kind, x *Tensor) *Tensor {
	switch {
	case from == to:
		return x
	case from == checkpoint.Device:
		return s.segmentSum(x, s.Int64(b.DeviceNode, len(b.DeviceNode)), len(b.NodeGraph))
	case from == checkpoint.Node:
		return s.Rows(x, s.Int64(b.DeviceNode, len(b.DeviceNode)))
	}
	return s.Rows(x, s.Int64(b.NodeGraph, len(b.NodeGraph)))
}

// withDevices returns v [n, 1] with zeros for the nodes without devices.
func (b graphs) withDevices(s *Scope, v *Tensor) *Tensor {
	has := make([]float32, len(b.NodeGraph))
	for _, node := range b.DeviceNode {
		has[node] = 1
	}
	if !slices.Contains(has, 0) {
		return v
	}
	return s.Mul(v, s.Float32(has, len(has), 1))
}

// interpolate returns the weights of the knots (see graph.Knots), one row for each device.
func interpolate(free []float32) []float32 {
	t := make([]float32, len(free)*feature.DeviceKnots)
	for d, f := range free {
		k, next := graph.Knots(f)
		t[d*feature.DeviceKnots+k], t[d*feature.DeviceKnots+k+1] = 1-next, next
	}
	return t
}
