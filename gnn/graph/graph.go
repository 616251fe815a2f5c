package graph

import (
	"fmt"
	"slices"
	"sync/atomic"

	"gnnsched/gnn/feature"
)

// Graph is the state of a cluster and one pending pod. All matrices are row-major. N, Z and C are
// the numbers of nodes, zones and candidates.
type Graph struct {
	// Widths are the lengths of the feature vectors. The zero value means those of feature.Default.
	Widths feature.Widths

	NodeX  []float32 // N × Widths.Node
	Zone   []int32   // N: the zone that the node is in, in [0, Zones)
	Groups []Groups  // N: the groups that run on the node
	Zones  int       // Z

	// Stamp changes whenever a node's row, its groups or its zone change, and no two changes in a
	// process have the same stamp (see NextStamp). So a value that was derived from row i stays
	// valid for as long as Stamp[i] stays the same.
	Stamp []uint64 // N

	PodX     []float32 // Widths.Pod
	ClusterX []float32 // Widths.Cluster

	Candidates []int32   // C: rows of the nodes on which the pod may be placed
	CandidateX []float32 // C × Widths.Candidate
}

// Groups are the groups of equal running pods on one node.
type Groups struct {
	X      []float32 // k × Widths.Group
	Weight []float32 // k: pods in each group
}

var stamp atomic.Uint64

// NextStamp returns a stamp that was never returned before in this process. It is never 0.
func NextStamp() uint64 { return stamp.Add(1) }

// featureWidths returns the lengths of the feature vectors, those of feature.Default for the zero value.
func (g *Graph) featureWidths() feature.Widths {
	if g.Widths == (feature.Widths{}) {
		return feature.Default().Widths
	}
	return g.Widths
}

// Has reports whether the feature vectors have these lengths.
func (g *Graph) Has(w feature.Widths) bool { return g.featureWidths() == w }

// Nodes returns N.
func (g *Graph) Nodes() int { return len(g.Zone) }

// Resize makes room for n nodes and keeps the rows that stay. New rows have stamp 0.
func (g *Graph) Resize(n int) {
	g.NodeX = resize(g.NodeX, n*g.featureWidths().Node)
	g.Zone = resize(g.Zone, n)
	g.Groups = resize(g.Groups, n)
	g.Stamp = resize(g.Stamp, n)
}

// ResizeCandidates makes room for c candidates; their content is undefined.
func (g *Graph) ResizeCandidates(c int) {
	g.Candidates = resize(g.Candidates, c)
	g.CandidateX = resize(g.CandidateX, c*g.featureWidths().Candidate)
}

// resize returns s with length n. Elements beyond its old or new length are zero.
func resize[T any](s []T, n int) []T {
	if n <= len(s) {
		clear(s[n:])
		return s[:n]
	}
	old := len(s)
	s = slices.Grow(s, n-old)[:n]
	clear(s[old:])
	return s
}

// NodeRow returns the features of node i, to read or to write.
func (g *Graph) NodeRow(i int) []float32 {
	w := g.featureWidths().Node
	return g.NodeX[i*w : (i+1)*w]
}

// CandidateRow returns the features of candidate c, to read or to write.
func (g *Graph) CandidateRow(c int) []float32 {
	w := g.featureWidths().Candidate
	return g.CandidateX[c*w : (c+1)*w]
}

// Clone returns a copy that shares nothing with g.
func (g *Graph) Clone() *Graph {
	c := &Graph{
		Widths: g.Widths,
		NodeX:  slices.Clone(g.NodeX), Zone: slices.Clone(g.Zone), Groups: make([]Groups, len(g.Groups)), Zones: g.Zones,
		Stamp: slices.Clone(g.Stamp), PodX: slices.Clone(g.PodX), ClusterX: slices.Clone(g.ClusterX),
		Candidates: slices.Clone(g.Candidates), CandidateX: slices.Clone(g.CandidateX),
	}
	for i, gr := range g.Groups {
		c.Groups[i] = Groups{X: slices.Clone(gr.X), Weight: slices.Clone(gr.Weight)}
	}
	return c
}

// Validate checks that all shapes agree and that all indices are in range.
func (g *Graph) Validate() error {
	n, w := g.Nodes(), g.featureWidths()
	if len(g.NodeX) != n*w.Node || len(g.Groups) != n || len(g.Stamp) != n {
		return fmt.Errorf("graph: %d nodes have zones, but there are %d node values, %d groups and %d stamps", n, len(g.NodeX), len(g.Groups),
			len(g.Stamp))
	}
	if len(g.PodX) != w.Pod || len(g.ClusterX) != w.Cluster || len(g.CandidateX) != len(g.Candidates)*w.Candidate {
		return fmt.Errorf("graph: %d pod values, %d cluster values, %d values for %d candidates", len(g.PodX), len(g.ClusterX),
			len(g.CandidateX), len(g.Candidates))
	}
	for i, z := range g.Zone {
		if z < 0 || int(z) >= g.Zones {
			return fmt.Errorf("graph: node %d in zone %d of %d", i, z, g.Zones)
		}
		if len(g.Groups[i].X) != len(g.Groups[i].Weight)*w.Group {
			return fmt.Errorf("graph: node %d has %d group values for %d groups", i, len(g.Groups[i].X), len(g.Groups[i].Weight))
		}
	}
	for _, c := range g.Candidates {
		if c < 0 || int(c) >= n {
			return fmt.Errorf("graph: candidate %d of %d nodes", c, n)
		}
	}
	return nil
}
