package run

import (
	"fmt"
	"math"
	"slices"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
)

// RewardKind names the reward of a placement.
type RewardKind string

// The kinds of reward. From each, the cost of the pods that began to wait is subtracted.
const (
	// PlacementReward is the fall of the cost by the placement itself. It leaves out departures,
	// which the policy does not choose.
	PlacementReward RewardKind = "placement"
	// StepReward is the fall of the cost until the next decision, departures included. Over an
	// episode these rewards add up to the fall of the cost from beginning to end.
	StepReward RewardKind = "step"
	// ShapedReward is minus the cost at the end, shaped by the cost on the way. It is StepReward
	// with the discount put where it does not change the order of policies (objective.Shaping).
	ShapedReward RewardKind = "shaped"
	// LevelReward is minus the cost at the next decision. Over an episode these rewards add up to
	// minus the cost over time.
	LevelReward RewardKind = "level"
)

var rewardKinds = []string{string(PlacementReward), string(StepReward), string(ShapedReward), string(LevelReward)}

// Reward says which reward a placement gets.
type Reward struct {
	Kind RewardKind `json:"kind"`
	// Scale, times the number of nodes, brings the reward to about one: the more nodes a cluster
	// has, the less a placement changes its cost.
	Scale float64 `json:"scale"` // factor on the reward, besides the number of nodes
}

func (r Reward) validate() error {
	if !slices.Contains(rewardKinds, string(r.Kind)) {
		return choice.Unknown("reward", string(r.Kind), rewardKinds)
	}
	if !(r.Scale > 0 && r.Scale <= 1e6) {
		return fmt.Errorf("reward's scale is %v, want over 0, at most 1e6", r.Scale)
	}
	return nil
}

// Change is how the cost of a cluster changes from one decision to the next.
type Change struct {
	Before float64 // at the decision
	Fall   float64 // by the placement alone
	After  float64 // at the next decision
	Last   bool    // whether there is no next decision: the episode ends
}

// Unscaled returns the reward of a placement before scaling, without the penalty for pods that
// wait. gamma is the learner's discount.
func (r Reward) Unscaled(c Change, gamma float64) float64 {
	switch r.Kind {
	case StepReward:
		return c.Before - c.After
	case ShapedReward:
		return objective.Shaping{Gamma: gamma}.Reward(c.Before, c.After, c.Last)
	case LevelReward:
		return -c.After
	}
	return c.Fall
}

// step takes a step in env and returns its reward for a learner with the discount gamma.
func (r Reward) step(env *sim.Env, choice int, on cluster.DeviceSet, gamma float64) float64 {
	scale, waiting := r.Scale*float64(len(env.Snapshot().Nodes)), r.waiting(env)
	c := Change{Before: env.Cost()}
	c.Fall = env.StepOn(choice, on)
	c.After, c.Last = env.Cost(), env.Done()
	return scale * (r.Unscaled(c, gamma) - env.Config().WaitCost*float64(r.waiting(env)-waiting))
}

// waiting returns how many pods have had to wait so far. It is 0 if that costs nothing, and if
// the cost is in the fall that the environment returns already.
func (r Reward) waiting(env *sim.Env) int {
	if env.Config().WaitCost == 0 || r.Kind == PlacementReward {
		return 0
	}
	return env.Outcome().Waited
}

// Discount returns the factor by which a reward counts less than that of the placement before.
func (s Settings) Discount() float64 {
	if s.HalfLife > 0 {
		return math.Exp2(-1 / s.HalfLife)
	}
	return s.Gamma
}

// LearningRateAt returns the learning rate at a step: it falls linearly to a tenth over the run.
func (s Settings) LearningRateAt(step int) float64 {
	return s.LearningRate * (0.1 + 0.9*s.Fade(step, 1))
}

// TeacherShare returns the teacher's part in acting at a step, from 1 at the start to 0.
func (s Settings) TeacherShare(step int) float64 { return s.Fade(step, s.Imitation.Share) }

// Fade falls linearly from 1 at step 0 to 0 at the given share of the steps, and stays there. It
// is 0 for a share of 0.
func (s Settings) Fade(step int, share float64) float64 {
	if share == 0 {
		return 0
	}
	return max(1-float64(step)/(float64(s.Steps)*share), 0)
}
