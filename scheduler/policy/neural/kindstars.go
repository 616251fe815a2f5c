package neural

import (
	"slices"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/supply"
)

// KindStars encodes the kinds of pods of a cluster for a network on the graph of kinds. It is not safe for concurrent use.
type KindStars struct {
	layout *feature.Layout
	hears  bool
	kinds  []feature.Kind
	sums   feature.Kinds
	x      []float32
}

// NewKindStars returns an encoder of the features of a layout. Without hears, kinds hear nothing of nodes: as if there were none.
func NewKindStars(layout *feature.Layout, hears bool) *KindStars {
	return &KindStars{layout: layout, hears: hears}
}

// Look makes Star and Cluster encode a snapshot and its table, which is up to date.
func (e *KindStars) Look(s *cluster.Snapshot, t *supply.Table) {
	capacity := objective.Capacity(s.Nodes)
	var requested cluster.Resources
	nodes := 0
	for _, n := range s.Nodes {
		if n.Available() {
			requested = requested.Plus(n.Requested)
			nodes++
		}
	}
	e.sums = feature.Kinds{
		CPU: cluster.Fraction(requested.MilliCPU, capacity.MilliCPU), Memory: cluster.Fraction(requested.Memory, capacity.Memory),
		Nodes: float64(nodes), Running: float64(requested.Pods),
	}
	var arrived float64
	for _, k := range t.Kinds {
		arrived += k.Arrived
	}
	e.kinds = e.kinds[:0]
	for i, k := range t.Kinds {
		of, share := &t.Totals[i], objective.Share(k.Pod.Requests, capacity)
		x := feature.Kind{
			Share: k.Arrived / max(arrived, 1), Waiting: k.Waiting, Size: share * float64(nodes),
		}
		if e.hears {
			x.Free, x.Places, x.Breadth = of.Free, of.Places, of.Nodes/max(t.Nodes, 1)
		}
		x.Expected = x.Share * e.sums.Running
		e.sums.Waiting += share * k.Waiting
		e.kinds = append(e.kinds, x)
	}
}

// Star encodes a kind with so many places more or fewer than there are.
func (e *KindStars) Star(g *graph.GPUNode, k int, more float64) {
	x := e.kinds[k]
	x.Free = max(x.Free+more, 0)
	width := e.layout.Widths.Node
	g.X = feature.Fill(e.layout.Node, &feature.Node{Kind: &x}, slices.Grow(g.X[:0], width)[:width])
	g.Free = append(g.Free[:0], 0) // without anything around it, the centre would have no value
}

// Loses returns how many places a kind must have more so that it has one to lose: 0, or 1 where none is left.
func (e *KindStars) Loses(k int) float64 {
	if e.kinds[k].Free < 1 {
		return 1
	}
	return 0
}

// Cluster returns the features of the cluster, which are valid until the next call.
func (e *KindStars) Cluster() []float32 {
	width := e.layout.Widths.Cluster
	e.x = feature.Fill(e.layout.Cluster, &feature.Candidates{Kinds: &e.sums}, slices.Grow(e.x[:0], width)[:width])
	return e.x
}

// All encodes all kinds with so many places more.
func (e *KindStars) All(more func(k int) float64) []graph.GPUNode {
	out := make([]graph.GPUNode, len(e.kinds))
	for k := range out {
		e.Star(&out[k], k, more(k))
	}
	return out
}
