package infer

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/fatal"
)

// The shipped networks keep their fingerprints, and give the same scores and values to the bit, over graphs that change. The kernels in
// assembly round otherwise, so the loops in Go run.
func TestShippedScores(t *testing.T) {
	was := vectorised
	defer func() { vectorised = was }()
	vectorised = false
	var lines []string
	for _, name := range checkpoint.ShippedNames() {
		c, err := checkpoint.Shipped(name)
		fatal.If(t, err)
		bits := bitsOf(t, c)
		lines = append(lines, fmt.Sprintf("%s %016x %016x\n", name, c.Fingerprint(), bits))
	}
	fatal.Golden(t, "shipped.golden", strings.Join(lines, ""))
}

// bitsOf hashes what a network gives.
func bitsOf(t *testing.T, c *checkpoint.Checkpoint) uint64 {
	h, r := fnv.New64a(), rand.New(rand.NewPCG(11, 12))
	add := func(x ...float32) {
		for _, v := range x {
			fmt.Fprintf(h, "%08x", math.Float32bits(v))
		}
	}
	if c.Manifest.Architecture.Stars() {
		net, err := New(c)
		fatal.If(t, err)
		w := net.Layout().Widths
		for range 20 {
			g, u := &graph.GPUNode{X: uniform(r, w.Node), Free: make([]float32, r.IntN(9))}, uniform(r, w.Cluster)
			for i := range g.Free {
				g.Free[i] = r.Float32()
			}
			add(net.Critic().Value(g, u), net.Actor().Value(g, u))
		}
		return h.Sum64()
	}
	net, err := New(c)
	fatal.If(t, err)
	g, s := randomGraphOf(r, net.Layout().Widths, 30), net.NewSession()
	for range 6 {
		if net.Layout().Split != nil {
			g.Kept = make([]feature.Kept, g.Nodes())
			for i := range g.Kept {
				g.Kept[i] = randomKept(r, net)
			}
			splitRandomly(r, net, g)
		}
		out, err := s.Score(g, nil)
		fatal.If(t, err)
		add(append(out.Scores, out.Value)...)
		for i := range g.Nodes() {
			if r.IntN(4) == 0 {
				redraw(r, g, i)
			}
		}
		g.Kept, g.SplitX = nil, nil
		choose(r, g)
		copy(g.PodX, uniform(r, g.Widths.Pod))
	}
	return h.Sum64()
}
