package infer

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/internal/fatal"
)

// The shipped networks, and networks on the cluster graph, keep their fingerprints, and give the same scores and values to the bit, over
// graphs that change. The kernels in assembly round otherwise, so the loops in Go run.
func TestScoresStay(t *testing.T) {
	was := vectorised
	defer func() { vectorised = was }()
	vectorised = false
	var lines []string
	add := func(name string, c *checkpoint.Checkpoint) {
		lines = append(lines, fmt.Sprintf("%s %016x %016x\n", name, c.Fingerprint(), bitsOf(t, c)))
	}
	for _, name := range checkpoint.ShippedNames() {
		add(name, fatal.Value(checkpoint.Shipped(name))(t))
	}
	for _, e := range []checkpoint.Encoder{checkpoint.GNN, checkpoint.MLP} {
		_, c := networkOf(t, checkpoint.Architecture{Encoder: e, Head: checkpoint.DQN, Hidden: 16, Features: []string{"base", "whole"}})
		add("random "+string(e)+" on base and whole", c)
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
		out, err := s.Score(g, nil)
		fatal.If(t, err)
		add(out...)
		for i := range g.Nodes() {
			if r.IntN(4) == 0 {
				redraw(r, g, i)
			}
		}
		choose(r, g)
		copy(g.PodX, uniform(r, g.Widths.Pod))
	}
	return h.Sum64()
}
