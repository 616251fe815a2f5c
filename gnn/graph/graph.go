package graph

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// Graph is the state of a cluster and one pending pod. All matrices are row-major.
type Graph struct {
	NodeX  []float32 // N × NodeDim
	Zone   []int32   // N: the zone vertex that the node is in, in [0, Zones)
	Groups []Groups  // N: the groups that run on the node
	Zones  int

	// Stamp changes whenever a node's row or its groups or its zone change, and no two
	// changes in a process share one (see NextStamp): who derives something from row i may
	// keep it for as long as Stamp[i] stays.
	Stamp []uint64 // N

	PodX     []float32 // PodDim
	ClusterX []float32 // ClusterDim

	Candidates []int32   // C: node rows on which the pod may be placed
	CandidateX []float32 // C × CandidateDim
}

// Groups are the groups of running pods on one node.
type Groups struct {
	X      []float32 // k × GroupDim
	Weight []float32 // k: pods in the group
}

var stamp atomic.Uint64

// NextStamp returns a stamp that was never returned before; never 0.
func NextStamp() uint64 { return stamp.Add(1) }

// Nodes returns N.
func (g *Graph) Nodes() int { return len(g.Zone) }

// Resize makes room for n nodes and keeps the rows that stay. New rows have stamp 0.
func (g *Graph) Resize(n int) {
	g.NodeX = resize(g.NodeX, n*NodeDim)
	g.Zone = resize(g.Zone, n)
	g.Groups = resize(g.Groups, n)
	g.Stamp = resize(g.Stamp, n)
}

// ResizeCandidates makes room for c candidates; their content is undefined.
func (g *Graph) ResizeCandidates(c int) {
	g.Candidates = resize(g.Candidates, c)
	g.CandidateX = resize(g.CandidateX, c*CandidateDim)
}

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
func (g *Graph) NodeRow(i int) []float32 { return g.NodeX[i*NodeDim : (i+1)*NodeDim] }

// CandidateRow returns the features of candidate c, to read or to write.
func (g *Graph) CandidateRow(c int) []float32 {
	return g.CandidateX[c*CandidateDim : (c+1)*CandidateDim]
}

// Clone returns a copy that shares nothing with g.
func (g *Graph) Clone() *Graph {
	c := &Graph{
		NodeX: slices.Clone(g.NodeX), Zone: slices.Clone(g.Zone), Groups: make([]Groups, len(g.Groups)), Zones: g.Zones,
		Stamp: slices.Clone(g.Stamp), PodX: slices.Clone(g.PodX), ClusterX: slices.Clone(g.ClusterX),
		Candidates: slices.Clone(g.Candidates), CandidateX: slices.Clone(g.CandidateX),
	}
	for i, gr := range g.Groups {
		c.Groups[i] = Groups{X: slices.Clone(gr.X), Weight: slices.Clone(gr.Weight)}
	}
	return c
}

// Validate checks that all shapes agree and all indices are in range.
func (g *Graph) Validate() error {
	n := g.Nodes()
	if len(g.NodeX) != n*NodeDim || len(g.Groups) != n || len(g.Stamp) != n {
		return fmt.Errorf("graph: %d zones entries but %d node values, %d groups, %d stamps", n, len(g.NodeX), len(g.Groups), len(g.Stamp))
	}
	if len(g.PodX) != PodDim || len(g.ClusterX) != ClusterDim || len(g.CandidateX) != len(g.Candidates)*CandidateDim {
		return fmt.Errorf("graph: %d pod values, %d cluster values, %d values for %d candidates", len(g.PodX), len(g.ClusterX), len(g.CandidateX), len(g.Candidates))
	}
	for i, z := range g.Zone {
		if z < 0 || int(z) >= g.Zones {
			return fmt.Errorf("graph: node %d in zone %d of %d", i, z, g.Zones)
		}
		if len(g.Groups[i].X) != len(g.Groups[i].Weight)*GroupDim {
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
