package infer

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/internal/fatal"
)

// StepScore is what the session gives the two states. The parts of the features and devices add up to it, gradients are those of finite
// differences, and what does not change has no part.
func TestStepReading(t *testing.T) {
	for _, e := range []checkpoint.Encoder{checkpoint.GNN, checkpoint.MLP, checkpoint.Linear} {
		for _, head := range []checkpoint.Head{checkpoint.DQN, checkpoint.ActorCritic} {
			n, err := New(gpuCheckpoint(e, head))
			fatal.If(t, err)
			r := rand.New(rand.NewPCG(7, 8))
			for devices := range 9 {
				before, after, u := randomStep(r, devices)
				s, psi := n.Actor(), make([]float32, n.Width())
				s.Cluster(psi, u)
				want := float64(s.Value(&before, u) - s.Value(&after, u))
				reading := StepReading(&before, &after, psi)
				if got, err := n.StepScore(reading); err != nil || math.Abs(got-want) > 1e-4*(1+math.Abs(want)) {
					t.Fatalf("%s %s, %d devices: %v, want %v: %v", e, head, devices, got, want, err)
				}
				parts, err := n.AttributeStep(reading)
				if err != nil || len(parts) != gpuWidths.Node+devices {
					t.Fatalf("%d parts, %v", len(parts), err)
				}
				sum := 0.0
				for _, p := range parts {
					sum += p.Part
					if p.From == p.To && p.Part != 0 || strings.HasPrefix(p.Name, "device") && e != checkpoint.GNN && p.Part != 0 {
						t.Errorf("%s: %+v", e, p)
					}
				}
				if math.Abs(sum-want) > 1e-3*(1+math.Abs(want)) {
					t.Errorf("%s %s, %d devices: the parts add up to %v, the value falls by %v", e, head, devices, sum, want)
				}
			}
		}
	}
	n, err := New(gpuCheckpoint(checkpoint.GNN, checkpoint.DQN))
	fatal.If(t, err)
	for _, length := range []int{0, 2*gpuWidths.Node + n.Width() + 1} {
		if _, err := n.AttributeStep(make([]float32, length)); err == nil {
			t.Errorf("a reading of %d numbers has parts", length)
		}
	}
}

// randomStep returns a node with devices before and after one of them, and a feature, change.
func randomStep(r *rand.Rand, devices int) (before, after graph.GPUNode, u []float32) {
	before = graph.GPUNode{X: uniform(r, gpuWidths.Node), Free: make([]float32, devices)}
	for d := range before.Free {
		before.Free[d] = r.Float32()
	}
	after = graph.GPUNode{X: slices.Clone(before.X), Free: slices.Clone(before.Free)}
	for j := range after.X[:len(after.X)/2] {
		after.X[j] -= r.Float32()
	}
	if devices > 0 {
		after.Free[devices/2] *= r.Float32()
	}
	return before, after, uniform(r, gpuWidths.Cluster)
}

func TestStepGradient(t *testing.T) {
	n, err := New(gpuCheckpoint(checkpoint.GNN, checkpoint.DQN))
	fatal.If(t, err)
	r := rand.New(rand.NewPCG(9, 10))
	x, psi := make([]float64, gpuWidths.Node+4), make([]float64, n.Width())
	for j := range x {
		x[j] = 0.05 + 0.9*r.Float64()
	}
	for j := range psi {
		psi[j] = r.Float64() - 0.5
	}
	gradient := make([]float64, len(x))
	at := func(g []float64) float64 { return n.critic.valueOf(x[:gpuWidths.Node], x[gpuWidths.Node:], psi, g) }
	at(gradient)
	for j := range x {
		const d = 1e-6
		was := x[j]
		x[j] = was + d
		up := at(nil)
		x[j] = was - d
		down := at(nil)
		x[j] = was
		if want := (up - down) / (2 * d); math.Abs(want-gradient[j]) > 1e-4*(1+math.Abs(want)) {
			t.Errorf("gradient %d is %v, want %v", j, gradient[j], want)
		}
	}
}
