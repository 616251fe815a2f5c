package graph

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/gnn/feature"
	"gnnsched/internal/fatal"
)

// tiny returns a valid graph of n nodes whose features depend on seed.
func tiny(n int, seed float32) *Graph {
	g, w := &Graph{Zones: 2}, feature.Default().Widths
	g.Resize(n)
	for i := range n {
		g.NodeRow(i)[0] = seed + float32(i)
		g.Zone[i], g.Stamp[i] = int32(i%2), NextStamp()
		g.Groups[i] = Groups{X: make([]float32, w.Group*(i%3)), Weight: make([]float32, i%3)}
	}
	g.PodX, g.ClusterX = make([]float32, w.Pod), make([]float32, w.Cluster)
	g.ResizeCandidates(n - 1)
	for c := range g.Candidates {
		g.Candidates[c] = int32(c + 1)
	}
	return g
}

func TestValidate(t *testing.T) {
	fatal.If(t, tiny(5, 0).Validate())
	for name, spoil := range map[string]func(*Graph){
		"nodes":      func(g *Graph) { g.NodeX = g.NodeX[1:] },
		"pod":        func(g *Graph) { g.PodX = nil },
		"zone":       func(g *Graph) { g.Zone[0] = 2 },
		"groups":     func(g *Graph) { g.Groups[1].Weight = nil },
		"candidates": func(g *Graph) { g.Candidates[0] = 5 },
	} {
		g := tiny(5, 0)
		spoil(g)
		if g.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	g := tiny(4, 1)
	c := g.Clone()
	if d := cmp.Diff(g, c, cmp.AllowUnexported(Graph{})); d != "" {
		t.Fatal(d)
	}
	c.NodeX[0], c.Groups[2].X[0], c.Candidates[0] = 99, 99, 3
	if g.NodeX[0] == 99 || g.Groups[2].X[0] == 99 || g.Candidates[0] == 3 {
		t.Error("the clone shares memory")
	}
}

func TestResizeClearsNewRows(t *testing.T) {
	g := tiny(4, 7)
	g.Resize(2)
	g.Resize(4)
	if g.NodeRow(3)[0] != 0 || g.Stamp[3] != 0 || g.NodeRow(1)[0] != 8 {
		t.Errorf("rows after shrinking and growing: %v, stamps %v", g.NodeX, g.Stamp)
	}
}
