package infer

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/internal/fatal"
)

func gpuCheckpoint(e checkpoint.Encoder, head checkpoint.Head) *checkpoint.Checkpoint {
	return checkpoint.Random(checkpoint.Architecture{Graph: checkpoint.GPUGraph, Encoder: e, Head: head, Hidden: 8},
		rand.New(rand.NewPCG(5, 6)))
}

// The order of a node's devices makes no difference, and only the encoder with messages sees the
// devices.
func TestGPUDevicesAreASet(t *testing.T) {
	for e, sees := range map[checkpoint.Encoder]bool{checkpoint.GNN: true, checkpoint.MLP: false, checkpoint.Linear: false} {
		n, err := New(gpuCheckpoint(e, checkpoint.DQN))
		fatal.If(t, err)
		changed := 0
		rapid.Check(t, func(t *rapid.T) {
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
			g := &graph.GPUNode{X: uniform(r, gpuWidths.Node), Free: make([]float32, 1+r.IntN(8))}
			for i := range g.Free {
				g.Free[i] = r.Float32()
			}
			u := uniform(r, gpuWidths.Cluster)
			s := n.Actor()
			before := s.Value(g, u)
			r.Shuffle(len(g.Free), func(i, j int) { g.Free[i], g.Free[j] = g.Free[j], g.Free[i] })
			if after := s.Value(g, u); math.Abs(float64(after-before)) > 1e-5 {
				t.Fatalf("%s: %v became %v in another order", e, before, after)
			}
			g.Free[0] = float32(math.Mod(float64(g.Free[0])+0.5, 1))
			if after := s.Value(g, u); math.Abs(float64(after-before)) > 1e-5 {
				changed++
			}
		})
		if (changed > 0) != sees {
			t.Errorf("%s: another device changed the value %d times", e, changed)
		}
	}
}

// In a network with an actor, the actor chooses and the critic gives the value.
func TestGPUActor(t *testing.T) {
	c := gpuCheckpoint(checkpoint.GNN, checkpoint.ActorCritic)
	n, err := New(c)
	fatal.If(t, err)
	r := rand.New(rand.NewPCG(1, 1))
	g, u := &graph.GPUNode{X: uniform(r, gpuWidths.Node), Free: []float32{1, 0.5}}, uniform(r, gpuWidths.Cluster)
	critic, actor := n.Critic().Value(g, u), n.Actor().Value(g, u)
	clear(c.Weights[checkpoint.ActorPrefix+"node.out.weight"].Data)
	clear(c.Weights[checkpoint.ActorPrefix+"node.out.bias"].Data)
	if n, err = New(c); err != nil {
		t.Fatal(err)
	}
	if got := n.Critic().Value(g, u); got != critic {
		t.Errorf("the actor's weights changed the value from %v to %v", critic, got)
	}
	if got := n.Actor().Value(g, u); got != 0 || actor == 0 {
		t.Errorf("the actor without weights gives %v, before %v", got, actor)
	}
}

// A caller that names its graphs gets no network on another.
func TestGraphsAreNotMixed(t *testing.T) {
	if _, err := New(gpuCheckpoint(checkpoint.GNN, checkpoint.DQN), checkpoint.ClusterGraph); !errors.Is(err, checkpoint.ErrSchema) {
		t.Errorf("a network on any cluster's graph from one on the GPU graph: %v", err)
	}
	_, c := network(t, checkpoint.GNN, 8)
	if _, err := New(c, checkpoint.GPUGraph); !errors.Is(err, checkpoint.ErrSchema) {
		t.Errorf("the other way round: %v", err)
	}
}

// A node without devices has the value zero.
func TestGPUNodeWithoutDevices(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	g, u := &graph.GPUNode{X: uniform(r, gpuWidths.Node)}, uniform(r, gpuWidths.Cluster)
	for _, e := range []checkpoint.Encoder{checkpoint.GNN, checkpoint.MLP, checkpoint.Linear} {
		n, err := New(gpuCheckpoint(e, checkpoint.ActorCritic))
		fatal.If(t, err)
		if a, b := n.Critic().Value(g, u), n.Actor().Value(g, u); a != 0 || b != 0 {
			t.Errorf("%s: %v and %v", e, a, b)
		}
	}
}
