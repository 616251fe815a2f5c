package infer

import (
	"math"
	"math/rand/v2"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
)

// ScoreOf a reading is the session's score. The parts of integrated gradients add up to the difference of two scores,
// and gradients are those of finite differences.
func TestReading(t *testing.T) {
	for _, e := range []checkpoint.Encoder{checkpoint.GNN, checkpoint.MLP} {
		for _, hidden := range []int{8, 11, 32} {
			net, _ := networkOf(t, checkpoint.Architecture{Encoder: e, Head: checkpoint.DQN, Hidden: hidden})
			g := randomGraph(rand.New(rand.NewPCG(3, uint64(hidden))), 12)
			s := net.NewSession()
			out, err := s.Score(g, nil)
			fatal.If(t, err)
			readings := make([][]float32, len(out))
			for i, want := range out {
				readings[i] = s.Reading(g, i)
				got, err := net.ScoreOf(readings[i])
				if err != nil || math.Abs(got-float64(want)) > 1e-4*(1+math.Abs(got)) {
					t.Fatalf("%s %d: %v of the reading, score %v: %v", e, hidden, got, want, err)
				}
			}
			for i := 1; i < len(readings); i++ {
				parts, err := net.Attribute(readings[0], readings[i])
				fatal.If(t, err)
				sum := each.Sum(parts, func(a Attribution) float64 { return a.Part })
				if want := float64(out[i] - out[0]); math.Abs(sum-want) > 1e-3*(1+math.Abs(want)) {
					t.Errorf("%s %d: the parts add up to %v, the scores differ by %v", e, hidden, sum, want)
				}
			}
			x := each.Map(readings[0], func(v float32) float64 { return float64(v) })
			gradient := make([]float64, len(x))
			net.scored(x, gradient)
			for j := range x {
				const d = 1e-6
				was := x[j]
				x[j] = was + d
				up := net.scored(x, nil)
				x[j] = was - d
				down := net.scored(x, nil)
				x[j] = was
				if want := (up - down) / (2 * d); math.Abs(want-gradient[j]) > 1e-4*(1+math.Abs(want)) {
					t.Errorf("%s %d: gradient %d is %v, want %v", e, hidden, j, gradient[j], want)
				}
			}
		}
	}
	net, _ := network(t, checkpoint.GNN, 8)
	if _, err := net.ScoreOf(nil); err == nil {
		t.Error("an empty reading has a score")
	}
}
