package online

import (
	"math"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/sim"
)

// The reward of a scheduler's step is the simulator's, waits included. Only the last step of an episode
// differs, which a scheduler does not have.
func TestReward(t *testing.T) {
	const gamma, waitCost = 0.9, 0.1
	for _, kind := range []run.RewardKind{run.PlacementReward, run.StepReward, run.ShapedReward, run.LevelReward} {
		t.Run(string(kind), func(t *testing.T) {
			s := run.Settings{Seed: 1, Gamma: gamma, Reward: run.Reward{Kind: kind, Scale: 10}}
			steps, want := episode(t, s, waitCost)
			for i, next := range steps[1:] {
				if got := reward(s.Reward, gamma, waitCost, steps[i], next); math.Abs(got-want[i]) > 1e-9 {
					t.Fatalf("the reward of step %d is %v, want %v", i, got, want[i])
				}
			}
			if steps[len(steps)-1].Waited == 0 {
				t.Error("no pod had to wait")
			}
		})
	}
}

// episode returns the steps of an episode with departures and full nodes, and the simulator's rewards.
func episode(t *testing.T, s run.Settings, waitCost float64) (steps []experience.Step, rewards []float64) {
	t.Helper()
	c := learntest.Env()
	c.Turnover, c.WaitCost, c.Load = 1, waitCost, sim.FloatRange{Min: 0.95, Max: 0.99}
	var f run.Figures
	envs, err := run.NewEnvironments(s, []sim.Config{c}, run.Layout{Count: 1, Group: 1}, checkpoint.Architecture{}, &f)
	if err == nil {
		err = envs.All[0].Begin()
	}
	fatal.If(t, err)
	twin, encoder := learntest.Started(t, c, s.Seed<<32+1), encode.New(feature.Default()) // in the same episode
	for last := false; !last; {
		choice := len(twin.Candidates()) / 2
		step := experience.Step{State: encoder.Encode(twin.Snapshot(), twin.Pending(), twin.Candidates()).Clone(), Before: twin.Cost()}
		waited := twin.Outcome().Waited
		step.Waited = uint64(waited)
		fall := twin.Step(choice)
		step.After = step.Before - fall - waitCost*float64(twin.Outcome().Waited-waited) // the simulator's fall contains the penalty
		steps = append(steps, step)
		var got float64
		got, last = envs.All[0].Step(choice)
		rewards = append(rewards, got)
	}
	return steps, rewards
}
