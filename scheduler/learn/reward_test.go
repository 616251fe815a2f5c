package learn

import (
	"math"
	"testing"

	"gnnsched/scheduler/sim"
)

// The rewards of an episode add up to what they are said to.
func TestRewards(t *testing.T) {
	c := smallEnv()
	c.Turnover, c.WaitCost, c.Load = 1, 0.1, sim.FloatRange{Min: 0.95, Max: 0.99}
	for _, kind := range []RewardKind{PlacementReward, StepReward, ShapedReward, LevelReward} {
		env, err := sim.New(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := env.Reset(3); err != nil {
			t.Fatal(err)
		}
		scale := 10 * float64(len(env.Snapshot().Nodes))
		first, level, sum, factor := env.Cost(), 0.0, 0.0, 1.0
		const gamma = 0.75
		for !env.Done() {
			paid := Reward{kind, 10}.step(env, len(env.Candidates())/2, gamma) / scale
			if kind == ShapedReward { // whose discounted sum is what is known
				paid *= factor
				factor *= gamma
			}
			sum += paid
			level += env.Cost()
		}
		waited := c.WaitCost * float64(env.Outcome().Waited)
		if waited == 0 {
			t.Fatal("nobody waited")
		}
		switch got := sum + waited; kind {
		case StepReward:
			if want := first - env.Cost(); math.Abs(got-want) > 1e-9 {
				t.Errorf("step: %v, want %v", got, want)
			}
		case ShapedReward:
			if got := sum; math.Abs(got-first) > c.WaitCost { // what the end adds is discounted away, and waiting comes late
				t.Errorf("shaped: %v, want %v", got, first)
			}
		case LevelReward:
			if math.Abs(got+level) > 1e-9 {
				t.Errorf("level: %v, want %v", got, -level)
			}
		case PlacementReward:
			if math.Abs(got-(first-env.Cost())) < 1e-6 {
				t.Error("departures made no difference to the placements' rewards")
			}
		}
	}
}
