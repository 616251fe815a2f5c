package run

import (
	"fmt"
	"math"
	"testing"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/sim"
)

var allRewards = []RewardKind{PlacementReward, StepReward, ShapedReward, LevelReward}

// rewarded is a step of an episode with its unscaled reward.
type rewarded struct {
	before, fall, after float64 // costs: at the decision, lowered by the placement, at the next decision
	waited              int     // pods that began to wait on the way
	reward              float64
}

// rewardedEpisode plays an episode with departures and full nodes.
func rewardedEpisode(t *testing.T, r Reward, waitCost, gamma float64) []rewarded {
	t.Helper()
	c := BalanceEnv()
	c.Nodes = sim.IntRange{Min: 4, Max: 8}
	c.WaitCost = waitCost
	c.Load = sim.FloatRange{Min: 0.95, Max: 0.99}
	env, twin := started(t, c), started(t, c) // twin tells what the placement alone does
	var steps []rewarded
	for !env.Done() {
		choice, waited := len(env.Candidates())/2, env.Outcome().Waited
		s := rewarded{before: env.Cost()}
		s.reward = r.step(env, choice, env.Snapshot().Nodes[env.Candidates()[choice]].ChooseDevices(env.Pending().Requests),
			gamma) / (r.Scale * float64(len(env.Snapshot().Nodes)))
		s.fall = twin.Step(choice)
		s.after, s.waited = env.Cost(), env.Outcome().Waited-waited
		s.fall += waitCost * float64(s.waited)
		steps = append(steps, s)
	}
	return steps
}

// started returns a simulator of c at the beginning of an episode.
func started(t *testing.T, c sim.Config) *sim.Env {
	t.Helper()
	env, err := sim.New(c)
	if err == nil {
		err = env.Reset(3)
	}
	fatal.If(t, err)
	return env
}

// The rewards of an episode add up to the sums in the doc comments of their kinds, with and without a
// cost of waiting.
func TestRewards(t *testing.T) {
	const gamma = 0.99
	for _, kind := range allRewards {
		for _, waitCost := range []float64{0, 0.1} {
			t.Run(fmt.Sprint(kind, waitCost), func(t *testing.T) {
				steps := rewardedEpisode(t, Reward{kind, 10}, waitCost, gamma)
				var sum, waits, falls, level float64
				factor := 1.0
				for i, s := range steps {
					if kind == ShapedReward { // has a known discounted sum
						factor = math.Pow(gamma, float64(i))
					}
					sum += factor * s.reward
					waits += factor * waitCost * float64(s.waited)
					falls += s.fall
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
