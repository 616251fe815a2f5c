//go:build torch

package torch

import (
	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
)

// graphs are the rows that layers read of a batch of graphs. Pods and the cluster have one for each graph.
type graphs struct{ *graph.Batch }

// count returns the number of vertices of a kind.
func (b graphs) count(kind checkpoint.Kind) int {
	switch kind {
	case checkpoint.Node:
		return b.Nodes()
	case checkpoint.Group:
		return len(b.GroupNode)
	case checkpoint.Device:
		return len(b.DeviceNode)
	case checkpoint.Zone:
		return len(b.ZoneGraph)
	case checkpoint.Candidate:
		return len(b.CandidateNode)
	}
	return b.Size
}

// features returns the features of all vertices of a kind, a row each.
func (b graphs) features(s *Scope, kind checkpoint.Kind) *Tensor {
	x := map[checkpoint.Kind][]float32{
		checkpoint.Node: b.NodeX, checkpoint.Group: b.GroupX, checkpoint.Pod: b.PodX, checkpoint.Cluster: b.ClusterX,
		checkpoint.Candidate: b.CandidateX,
	}[kind]
	if kind == checkpoint.Device {
		x = interpolate(b.DeviceFree)
	}
	rows := b.count(kind)
	return s.Float32(x, rows, len(x)/rows)
}

// collect makes one row for each vertex of kind to from the rows of kind from: a mean or a sum. collects is false if each vertex of to
// belongs to one of from instead: see lookup.
func (b graphs) collect(s *Scope, from, to checkpoint.Kind, x *Tensor) (y *Tensor, collects bool) {
	switch {
	case from == checkpoint.Device:
		return s.segmentSum(x, s.Int64(b.DeviceNode, len(b.DeviceNode)), b.Nodes()), true
	case from == checkpoint.Group && to == checkpoint.Node:
		return b.groupMessages(s, x), true
	case from == checkpoint.Node && (to == checkpoint.Zone || to == checkpoint.Cluster):
		return b.nodeMeans(s, x, to), true
	case from == checkpoint.Candidate && to == checkpoint.Cluster:
		return segmentMean(s, x, s.Int64(b.CandidateGraph, len(b.CandidateGraph)), b.CandidateGraph, b.Size), true
	}
	return nil, false
}

// lookup returns, for each vertex of kind to, the row of kind from that it belongs to.
func (b graphs) lookup(s *Scope, from, to checkpoint.Kind, x *Tensor) *Tensor {
	index := map[[2]checkpoint.Kind][]int64{
		{checkpoint.Cluster, checkpoint.Zone}:      b.ZoneGraph,
		{checkpoint.Cluster, checkpoint.Candidate}: b.CandidateGraph,
		{checkpoint.Zone, checkpoint.Candidate}:    b.CandidateZone,
		{checkpoint.Node, checkpoint.Candidate}:    b.CandidateNode,
		{checkpoint.Node, checkpoint.Device}:       b.DeviceNode,
		{checkpoint.Cluster, checkpoint.Node}:      b.PlaceZone, // a graph of stars has one zone
	}[[2]checkpoint.Kind{from, to}]
	return s.Rows(x, s.Int64(index, len(index)))
}

// groupMessages returns, for every node, the mean over its pods of their group's vector; zero for empty nodes.
func (b graphs) groupMessages(s *Scope, x *Tensor) *Tensor {
	total := make([]float32, b.Nodes())
	for i, v := range b.GroupNode {
		total[v] += b.GroupWeight[i]
	}
	share := make([]float32, len(b.GroupNode))
	for i, v := range b.GroupNode {
		share[i] = b.GroupWeight[i] / total[v]
	}
	return s.segmentSum(s.Mul(x, s.Float32(share, len(share), 1)), s.Int64(b.GroupNode, len(b.GroupNode)), b.Nodes())
}

// nodeMeans returns the means of the nodes' vectors over each zone, or over each graph; zero for a zone without nodes.
func (b graphs) nodeMeans(s *Scope, x *Tensor, to checkpoint.Kind) *Tensor {
	if b.PlaceNode != nil {
		x = s.Rows(x, s.Int64(b.PlaceNode, len(b.PlaceNode)))
	}
	zones := len(b.ZoneGraph)
	sum := s.segmentSum(x, s.Int64(b.PlaceZone, len(b.PlaceZone)), zones)
	count := make([]float32, zones)
	if to == checkpoint.Cluster {
		sum, count = s.segmentSum(sum, s.Int64(b.ZoneGraph, zones), b.Size), make([]float32, b.Size)
	}
	for _, z := range b.PlaceZone {
		if to == checkpoint.Cluster {
			z = b.ZoneGraph[z]
		}
		count[z]++
	}
	return s.Mul(sum, s.Float32(inverse(count), len(count), 1))
}

// withDevices returns v [n, 1] with zeros for the nodes without devices.
func (b graphs) withDevices(s *Scope, v *Tensor) *Tensor {
	has, without := make([]float32, b.Nodes()), b.Nodes()
	for _, node := range b.DeviceNode {
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
