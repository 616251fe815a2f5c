package learn

import (
	"fmt"
	"math"
	"testing"

	"gnnsched/gnn/graph"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/sim"
)

var allRewards = []RewardKind{PlacementReward, StepReward, ShapedReward, LevelReward}

// paidStep is a step of an episode and what was paid for it, unscaled.
type paidStep struct {
	before, fell, after float64 // costs: found, lowered by the placement, left to the next decision
	waited              int     // pods that began to wait on the way
	paid                float64
	nodes               int
	state               *graph.Graph
}

// paidEpisode is an episode with departures and full nodes.
func paidEpisode(t *testing.T, r Reward, waitCost, gamma float64) []paidStep {
	t.Helper()
	c := smallEnv()
	c.Turnover, c.WaitCost, c.Load = 1, waitCost, sim.FloatRange{Min: 0.95, Max: 0.99}
	paying, twin := started(t, c), started(t, c) // twin tells what the placement alone does
	encoder := encode.New()
	var steps []paidStep
	for !paying.Done() {
		choice, waited := len(paying.Candidates())/2, paying.Outcome().Waited
		s := paidStep{before: paying.Cost(), nodes: len(paying.Snapshot().Nodes)}
		s.state = encoder.Encode(paying.Snapshot(), paying.Pending(), paying.Candidates()).Clone()
		s.paid = r.step(paying, choice, gamma) / (r.Scale * float64(s.nodes))
		s.fell = twin.Step(choice)
		s.after, s.waited = paying.Cost(), paying.Outcome().Waited-waited
		s.fell += waitCost * float64(s.waited)
		steps = append(steps, s)
	}
	return steps
}

func started(t *testing.T, c sim.Config) *sim.Env {
	t.Helper()
	env, err := sim.New(c)
	if err == nil {
		err = env.Reset(3)
	}
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// The rewards of an episode add up to what they are said to, with and without a cost of waiting.
func TestRewards(t *testing.T) {
	const gamma = 0.99
	for _, kind := range allRewards {
		for _, waitCost := range []float64{0, 0.1} {
			t.Run(fmt.Sprint(kind, waitCost), func(t *testing.T) {
				steps := paidEpisode(t, Reward{kind, 10}, waitCost, gamma)
				sum, waits, falls, level, factor := 0.0, 0.0, 0.0, 0.0, 1.0
				for i, s := range steps {
					if kind == ShapedReward { // whose discounted sum is what is known
						factor = math.Pow(gamma, float64(i))
					}
					sum += factor * s.paid
					waits += factor * waitCost * float64(s.waited)
					falls += s.fell
					level += s.after
				}
				first, final := steps[0].before, steps[len(steps)-1].after
				want := map[RewardKind]float64{
					PlacementReward: falls, StepReward: first - final, LevelReward: -level,
					ShapedReward: first - math.Pow(gamma, float64(len(steps)-1))*final,
				}[kind] - waits
				if math.Abs(sum-want) > 1e-9 {
					t.Errorf("the sum is %v, want %v", sum, want)
				}
				if waitCost > 0 && waits == 0 {
					t.Error("nobody waited")
				}
				if math.Abs(falls-(first-final)) < 1e-6 {
					t.Error("departures made no difference to the placements' rewards")
				}
			})
		}
	}
}

// A scheduler's steps are paid as the simulator's, waits included, but for the last of an episode,
// which a scheduler has not.
func TestOnlineRewards(t *testing.T) {
	const gamma, waitCost = 0.9, 0.1
	for _, kind := range allRewards {
		t.Run(string(kind), func(t *testing.T) {
			r := Reward{kind, 10}
			steps, waited := paidEpisode(t, r, waitCost, gamma), uint64(0)
			for i, s := range steps[:len(steps)-1] {
				now := experience.Step{State: s.state, Before: s.before, After: s.before - s.fell, Waited: waited}
				waited += uint64(s.waited)
				next := experience.Step{State: steps[i+1].state, Before: steps[i+1].before, Waited: waited}
				want := s.paid * r.Scale * float64(s.nodes)
				if got := r.of(now, next, gamma, waitCost); math.Abs(got-want) > 1e-9 {
					t.Fatalf("step %d is paid %v, want %v", i, got, want)
				}
			}
			if waited == 0 {
				t.Error("nobody waited")
			}
		})
	}
}
