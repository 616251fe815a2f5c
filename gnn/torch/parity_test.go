//go:build torch

package torch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/feature/featuretest"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/internal/fatal"
)

// tolerance is the largest distance between the results of plain Go and libtorch.
const tolerance = 1e-5

// Plain Go and libtorch give the same scores and values: for every encoder, head and size, with one
// feature set or two, over small and large random graphs in one batch.
func TestParity(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	nets := map[string]*checkpoint.Checkpoint{}
	for _, e := range []checkpoint.Encoder{checkpoint.GNN, checkpoint.MLP} {
		for _, head := range []checkpoint.Head{checkpoint.DQN, checkpoint.ActorCritic} {
			for _, hidden := range []int{7, 32, 64} {
				a := checkpoint.Architecture{Encoder: e, Head: head, Hidden: hidden}
				nets[fmt.Sprintf("%s %s %d", e, head, hidden)] = checkpoint.Random(a, r)
				a.Features = featuretest.Names
				nets[fmt.Sprintf("%s %s %d with another set", e, head, hidden)] = checkpoint.Random(a, r)
			}
		}
	}
	for name, c := range nets {
		t.Run(name, func(t *testing.T) {
			layout, err := c.Manifest.Architecture.Layout()
			fatal.If(t, err)
			var graphs []*graph.Graph
			for _, n := range []int{1, 2, 10, 100, 1000} {
				graphs = append(graphs, randomGraph(r, layout.Widths, n))
			}
			graphs = append(graphs, withOneNodeChanged(r, graphs[2]))
			compare(t, c, graphs)
		})
	}
}

func compare(t *testing.T, c *checkpoint.Checkpoint, graphs []*graph.Graph) {
	net, err := networkOf(c)
	fatal.If(t, err)
	defer net.Drop()
	plain, err := infer.New(c)
	fatal.If(t, err)
	for _, batch := range []*graph.Batch{graph.Concat(graphs), graph.ConcatShared(graphs)} {
		compareBatch(t, net, plain, graphs, batch)
	}
}

func compareBatch(t *testing.T, net *Network, plain *infer.Network, graphs []*graph.Graph, batch *graph.Batch) {
	var s Scope
	defer s.Drop()
	out := net.Forward(&s, batch)
	scores, values := s.Float32s(out.Scores), s.Float32s(out.Value)
	fatal.If(t, s.Err())
	var wantValues []float32
	for i, g := range graphs {
		fatal.If(t, g.Validate())
		want, err := plain.NewSession().Score(g, nil)
		fatal.If(t, err)
		got := scores[batch.CandidateStart[i]:batch.CandidateStart[i+1]]
		if len(got) != len(want.Scores) {
			t.Fatalf("%d nodes: %d scores, want %d", g.Nodes(), len(got), len(want.Scores))
		}
		wantValues = append(wantValues, want.Value)
		if d := distance(got, want.Scores); d > tolerance {
			t.Errorf("%d nodes: the scores of plain Go and libtorch differ by %g", g.Nodes(), d)
		}
	}
	// All graphs' at once: where a value is small it is the difference of large terms, and what is
	// lost is of their size.
	if d := distance(values, wantValues); d > tolerance {
		t.Errorf("the values of plain Go and libtorch differ by %g", d)
	}
}

// distance returns the largest difference between two vectors, divided by the largest entry of b if
// that is over 1: float32 holds no more than seven digits.
func distance(a, b []float32) float64 {
	worst, size := 0.0, 1.0
	for i := range a {
		worst = max(worst, math.Abs(float64(a[i]-b[i])))
		size = max(size, math.Abs(float64(b[i])))
	}
	return worst / size
}

// randomGraph draws a graph of n nodes with features in the range that the encoder gives.
func randomGraph(r *rand.Rand, w feature.Widths, n int) *graph.Graph {
	g := &graph.Graph{Widths: w, Zones: 1 + r.IntN(3), PodX: uniform(r, w.Pod), ClusterX: uniform(r, w.Cluster)}
	g.Resize(n)
	copy(g.NodeX, uniform(r, len(g.NodeX)))
	for i := range n {
		k := r.IntN(4)
		g.Groups[i] = graph.Groups{X: uniform(r, k*w.Group), Weight: make([]float32, k)}
		for j := range k {
			g.Groups[i].Weight[j] = float32(1 + r.IntN(50))
		}
		g.Zone[i], g.Stamp[i] = int32(r.IntN(g.Zones)), graph.NextStamp()
	}
	g.ResizeCandidates(1 + r.IntN(n))
	for c, v := range r.Perm(n)[:len(g.Candidates)] {
		g.Candidates[c] = int32(v)
	}
	copy(g.CandidateX, uniform(r, len(g.CandidateX)))
	return g
}

// withOneNodeChanged returns g one decision later: one node has changed, and the others have the same
// stamps.
func withOneNodeChanged(r *rand.Rand, g *graph.Graph) *graph.Graph {
	c := g.Clone()
	i := r.IntN(c.Nodes())
	copy(c.NodeRow(i), uniform(r, c.Widths.Node))
	c.Stamp[i] = graph.NextStamp()
	copy(c.PodX, uniform(r, len(c.PodX)))
	return c
}

func uniform(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = r.Float32()*2 - 1
	}
	return x
}

// A network that is loaded and not trained gives its checkpoint back.
func TestCheckpointRoundTrip(t *testing.T) {
	c := checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8}, rand.New(rand.NewPCG(3, 4)))
	net, err := networkOf(c)
	fatal.If(t, err)
	defer net.Drop()
	back, err := net.Checkpoint()
	fatal.If(t, err)
	for name, want := range c.Weights {
		for i, v := range want.Data {
			if back.Weights[name].Data[i] != v {
				t.Fatalf("%s[%d] changed", name, i)
			}
		}
	}
	if err := back.Validate(); err != nil {
		t.Error(err)
	}
}
