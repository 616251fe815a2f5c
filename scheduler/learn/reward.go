package learn

import (
	"fmt"
	"slices"
	"strings"

	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
)

// RewardKind is what a placement is paid for.
type RewardKind string

// The kinds of reward. All are less the simulator's cost of waiting pods.
const (
	// PlacementReward is how much the placement itself lowers the cost. Departures, which are
	// nobody's choice, are not in it.
	PlacementReward RewardKind = "placement"
	// StepReward is how much the cost falls until the next decision, departures included: its
	// sum over an episode is what the cost has fallen by in the end.
	StepReward RewardKind = "step"
	// ShapedReward is the cost in the end, negative, shaped by the cost on the way: as StepReward,
	// but so that the discount changes no policy's rank (objective.Shaping).
	ShapedReward RewardKind = "shaped"
	// LevelReward is the cost at the next decision, negative: its sum over an episode is the
	// cost over time.
	LevelReward RewardKind = "level"
)

var rewardKinds = []string{string(PlacementReward), string(StepReward), string(ShapedReward), string(LevelReward)}

// Reward says what is learned from.
type Reward struct {
	Kind RewardKind `json:"kind" flag:"reward" usage:"what a placement is paid for: placement, step (departures too), shaped (the same, discounted right) or level (the cost over time)"`
	// Scale, times the number of nodes, brings the reward to about one: a placement moves the
	// cost of a cluster by the less the more nodes it has.
	Scale float64 `json:"scale" flag:"reward-scale" usage:"of the reward, times the number of nodes"`
}

func (r Reward) validate() error {
	if !slices.Contains(rewardKinds, string(r.Kind)) {
		return fmt.Errorf("reward %q is not known; there are %s", r.Kind, strings.Join(rewardKinds, ", "))
	}
	if !(r.Scale > 0 && r.Scale <= 1e6) {
		return fmt.Errorf("reward's scale is %v, want over 0, at most 1e6", r.Scale)
	}
	return nil
}

// step takes a step in env and returns what it is paid by a learner with the discount gamma.
func (r Reward) step(env *sim.Env, choice int, gamma float64) float64 {
	scale := r.Scale * float64(len(env.Snapshot().Nodes))
	if r.Kind == PlacementReward {
		return scale * env.Step(choice)
	}
	before, waited := env.Cost(), r.waited(env)
	env.Step(choice)
	after, paid := env.Cost(), 0.0
	switch r.Kind {
	case StepReward:
		paid = before - after
	case ShapedReward:
		paid = objective.Shaping{Gamma: gamma}.Reward(before, after, env.Done())
	case LevelReward:
		paid = -after
	}
	return scale * (paid - env.Config().WaitCost*float64(r.waited(env)-waited))
}

// waited is how many pods have had to wait, where that costs anything.
func (r Reward) waited(env *sim.Env) int {
	if env.Config().WaitCost == 0 {
		return 0
	}
	return env.Outcome().Waited
}
