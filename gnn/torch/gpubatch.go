//go:build torch

package torch

import (
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/layer"
)

// GPUBatch is n nodes, with d devices together, of k clusters. Its rows have the widths of
// feature.Layout.
type GPUBatch struct {
	X       []float32 // n × Widths.Node: features of the nodes
	Free    []float32 // d: free part of each device
	Node    []int64   // d: node of each device
	Cluster []int64   // n: cluster of each node
	u       []float32 // k × Widths.Cluster: features of the clusters

	clusters int // k
}

// Add appends a node of the cluster that was begun last.
func (b *GPUBatch) Add(g *graph.GPUNode) {
	node := int64(len(b.Cluster))
	b.X = append(b.X, g.X...)
	b.Free = append(b.Free, g.Free...)
	for range g.Free {
		b.Node = append(b.Node, node)
	}
	b.Cluster = append(b.Cluster, int64(b.clusters)-1)
}

// Begin begins a cluster with the features u. Add appends the nodes that follow to it.
func (b *GPUBatch) Begin(u []float32) {
	b.u = append(b.u, u...)
	b.clusters++
}

// Reset empties the batch.
func (b *GPUBatch) Reset() {
	*b = GPUBatch{X: b.X[:0], Free: b.Free[:0], Node: b.Node[:0], Cluster: b.Cluster[:0], u: b.u[:0]}
}

// nodes are the rows of a GPUBatch.
type nodes struct{ *GPUBatch }

// count implements rows.
func (b nodes) count(kind layer.Kind) int {
	switch kind {
	case layer.Node:
		return len(b.Cluster)
	case layer.Device:
		return len(b.Free)
	}
	return b.clusters
}

// features implements rows.
func (b nodes) features(s *Scope, kind layer.Kind) *Tensor {
	x := b.X
	switch kind {
	case layer.Cluster:
		x = b.u
	case layer.Device:
		x = interpolate(b.Free)
	}
	return s.Float32(x, b.count(kind), len(x)/b.count(kind))
}

// collect implements rows.
func (b nodes) collect(s *Scope, from, to layer.Kind, x *Tensor) (*Tensor, bool) {
	if from != layer.Device {
		return nil, false
	}
	return s.segmentSum(x, s.Int64(b.Node, len(b.Node)), len(b.Cluster)), true
}

// lookup implements rows.
func (b nodes) lookup(s *Scope, _, _ layer.Kind, x *Tensor) *Tensor {
	return s.Rows(x, s.Int64(b.Node, len(b.Node)))
}

// withDevices returns v [n, 1] with zeros for the nodes without devices.
func (b *GPUBatch) withDevices(s *Scope, v *Tensor) *Tensor {
	has, without := make([]float32, len(b.Cluster)), len(b.Cluster)
	for _, node := range b.Node {
		if has[node] == 0 {
			has[node] = 1
			without--
		}
	}
	if without == 0 {
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
