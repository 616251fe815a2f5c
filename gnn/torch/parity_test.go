//go:build torch

package torch

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature/featuretest"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/internal/fatal"
)

// tolerance is the largest distance between the results of plain Go and libtorch.
const tolerance = 1e-5

// Plain Go and libtorch give the same values on the GPU graph, for every encoder and head, with one
// feature set or two, and for every checkpoint that ships.
func TestGPUParity(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	nets := map[string]*checkpoint.Checkpoint{}
	for _, e := range []checkpoint.Encoder{checkpoint.GNN, checkpoint.MLP, checkpoint.Linear} {
		for _, head := range []checkpoint.Head{checkpoint.DQN, checkpoint.ActorCritic} {
			for _, hidden := range []int{7, 32} {
				a := checkpoint.Architecture{Graph: checkpoint.GPUGraph, Encoder: e, Head: head, Hidden: hidden}
				nets[fmt.Sprintf("%s %s %d", e, head, hidden)] = checkpoint.Random(a, r)
				a.Features = featuretest.Names
				nets[fmt.Sprintf("%s %s %d with another set", e, head, hidden)] = checkpoint.Random(a, r)
			}
		}
	}
	for _, g := range []checkpoint.Graph{checkpoint.GPUGraph, checkpoint.KindsGraph} {
		maps.Copy(nets, shipped(t, g))
	}
	for name, c := range nets {
		t.Run(name, func(t *testing.T) { compareGPU(t, r, c) })
	}
}

func compareGPU(t *testing.T, r *rand.Rand, c *checkpoint.Checkpoint) {
	net, err := networkOf(c)
	fatal.If(t, err)
	defer net.Drop()
	plain, err := infer.New(c)
	fatal.If(t, err)
	var b graph.Batch
	var critic, actor []float32
	gpuWidths := plain.Layout().Widths
	for range 3 {
		u := uniform(r, gpuWidths.Cluster)
		b.Begin(u)
		for range 40 {
			g := &graph.GPUNode{X: uniform(r, gpuWidths.Node), Free: make([]float32, r.IntN(9))}
			for i := range g.Free {
				g.Free[i] = []float32{0, 0.19, 0.325, 1, r.Float32()}[r.IntN(5)]
			}
			b.AddStar(g)
			critic, actor = append(critic, plain.Critic().Value(g, u)), append(actor, plain.Actor().Value(g, u))
		}
	}
	var s Scope
	defer s.Drop()
	acts := c.Manifest.Architecture.Head == checkpoint.ActorCritic
	gotCritic, gotActor := s.Float32s(net.Values(&s, &b, false)), s.Float32s(net.Values(&s, &b, acts))
	fatal.If(t, s.Err())
	if d := distance(gotCritic, critic); d > tolerance {
		t.Errorf("the values of plain Go and libtorch differ by %g", d)
	}
	if d := distance(gotActor, actor); d > tolerance {
		t.Errorf("the actor's values of plain Go and libtorch differ by %g", d)
	}
}

// shipped returns the shipped checkpoints that read a kind of graph.
func shipped(t *testing.T, g checkpoint.Graph) map[string]*checkpoint.Checkpoint {
	all := map[string]*checkpoint.Checkpoint{}
	for _, name := range checkpoint.ShippedNames() {
		c, err := checkpoint.Shipped(name)
		fatal.If(t, err)
		if c.Manifest.Architecture.Graph == g {
			all["shipped "+name] = c
		}
	}
	return all
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

func uniform(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = r.Float32()*2 - 1
	}
	return x
}

// A network that is loaded and not trained gives its checkpoint back.
func TestCheckpointRoundTrip(t *testing.T) {
	c := checkpoint.Random(checkpoint.Architecture{Graph: checkpoint.GPUGraph, Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8}, rand.New(rand.NewPCG(3, 4)))
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
