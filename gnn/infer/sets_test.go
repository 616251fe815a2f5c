package infer

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature/featuretest"
	"gnnsched/gnn/graph"
	"gnnsched/internal/fatal"
)

// A network reads all sets that its architecture names. Its results are those of the equations, with
// the kernels in assembly (hidden sizes that are multiples of eight) and in Go.
func TestNetworkWithMoreSets(t *testing.T) {
	for _, n := range []struct {
		hidden   int
		encoder  checkpoint.Encoder
		features []string
	}{
		{8, checkpoint.GNN, featuretest.Names}, {11, checkpoint.MLP, featuretest.Names}, {9, checkpoint.GNN, featuretest.Names},
		{16, checkpoint.MLP, featuretest.Names},
	} {
		net, c := networkOf(t, checkpoint.Architecture{Encoder: n.encoder, Head: checkpoint.DQN, Hidden: n.hidden, Features: n.features})
		rapid.Check(t, func(t *rapid.T) {
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			g := randomGraphOf(r, net.Layout().Widths, 1+r.IntN(20))
			out, err := net.NewSession().Score(g, nil)
			fatal.If(t, err)
			sameAsReference(t, c, g, out)
		})
	}
}

// A graph with other features than the network reads is an error, not a wrong score.
func TestGraphOfOtherSets(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	usual, _ := network(t, checkpoint.GNN, 8)
	more, _ := networkOf(t, checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8, Features: featuretest.Names})
	for _, c := range []struct {
		net, of *Network
		fits    bool
	}{{usual, usual, true}, {more, more, true}, {usual, more, false}, {more, usual, false}} {
		g := randomGraphOf(r, c.of.Layout().Widths, 5)
		if _, err := c.net.NewSession().Score(g, nil); (err == nil) != c.fits {
			t.Errorf("a network of %d features on a graph of %d: %v", c.net.Layout().Widths.Node, c.of.Layout().Widths.Node, err)
		}
	}
	g := randomGraphOf(r, usual.Layout().Widths, 5)
	g.Widths = (&graph.Graph{}).Widths // the usual ones
	if _, err := usual.NewSession().Score(g, nil); err != nil {
		t.Error(err)
	}
}

// A network on the GPU graph reads all sets, too.
func TestGPUNetworkWithMoreSets(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, e := range []checkpoint.Encoder{checkpoint.GNN, checkpoint.MLP, checkpoint.Linear} {
		a := checkpoint.Architecture{Graph: checkpoint.GPUGraph, Encoder: e, Head: checkpoint.DQN, Hidden: 8, Features: featuretest.Names}
		net, err := New(checkpoint.Random(a, r))
		fatal.If(t, err)
		w := net.Layout().Widths
		g, u := &graph.GPUNode{X: uniform(r, w.Node), Free: []float32{1, 0.5}}, uniform(r, w.Cluster)
		before := net.Actor().Value(g, u)
		g.X[w.Node-1] += 1
		if net.Actor().Value(g, u) == before {
			t.Errorf("%s: the last feature changes nothing", e)
		}
	}
}
