package run

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

// A network sees all feasible nodes, as in a scheduler, and chooses among those that preferences leave.
func TestMaskLeavesThePreferred(t *testing.T) {
	s, err := eval.Find("small8")
	fatal.If(t, err)
	net, err := infer.New(checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 8},
		rand.New(rand.NewPCG(1, 1))))
	fatal.If(t, err)
	all, err := NewEnvironments(Settings{Seed: 1}, []sim.Config{s.Config}, 1, checkpoint.Architecture{}, &Figures{})
	fatal.If(t, err)
	e := all.All[0]
	fatal.If(t, e.Begin())
	e.follow(net)
	excluded := 0
	for range 200 {
		e.Observe()
		out, err := e.Score()
		fatal.If(t, err)
		scores := slices.Clone(out.Scores)
		e.Mask(scores)
		var left []int32
		for i, v := range scores {
			if math.IsInf(float64(v), -1) {
				excluded++
			} else {
				left = append(left, int32(i))
			}
		}
		if !slices.Equal(left, e.env.Preferred()) {
			t.Fatalf("%v are left, preferences leave %v", left, e.env.Preferred())
		}
		if e.Step(slices.Index(scores, slices.Max(scores))) {
			t.Fatal("the episode is too short")
		}
	}
	if excluded == 0 {
		t.Error("preferences exclude nothing")
	}
}
