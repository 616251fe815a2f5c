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

// In rollouts a network sees all feasible nodes, as in a scheduler, and chooses among those that preferences
// leave. With the other methods it sees no others.
func TestMaskLeavesThePreferred(t *testing.T) {
	s, err := eval.Find("small8")
	fatal.If(t, err)
	net, err := infer.New(checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 8},
		rand.New(rand.NewPCG(1, 1))))
	fatal.If(t, err)
	for _, byRollouts := range []bool{false, true} {
		all, err := NewEnvironments(Settings{Seed: 1, Reward: Reward{Kind: PlacementReward, Scale: 1}}, []sim.Config{s.Config},
			Layout{1, 1, byRollouts}, checkpoint.Architecture{}, &Figures{})
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
					left = append(left, int32(e.candidate(i)))
				}
			}
			if !slices.Equal(left, e.env.Preferred()) {
				t.Fatalf("by rollouts %v: %v are left, preferences leave %v", byRollouts, left, e.env.Preferred())
			}
			if _, last := e.Step(slices.Index(scores, slices.Max(scores))); last {
				t.Fatal("the episode is too short")
			}
		}
		if byRollouts != (excluded > 0) {
			t.Errorf("by rollouts %v: %d candidates were seen that preferences exclude", byRollouts, excluded)
		}
	}
}
