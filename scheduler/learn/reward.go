package learn

import (
	"fmt"
	"slices"
	"strings"

	"gnnsched/scheduler/experience"
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
	before, waited := env.Cost(), r.waited(env)
	fell := env.Step(choice)
	paid := r.paid(fell, before, env.Cost(), gamma, env.Done())
	return scale * (paid - env.Config().WaitCost*float64(r.waited(env)-waited))
}

// of is what step pays, for a step of a scheduler at work that is followed by next, where a pod
// that has to wait costs waitCost. Such a scheduler's workload has no last step.
func (r Reward) of(s, next experience.Step, gamma, waitCost float64) float64 {
	paid := r.paid(s.Before-s.After, s.Before, next.Before, gamma, false)
	return r.Scale * float64(s.State.Nodes()) * (paid - waitCost*float64(next.Waited-s.Waited))
}

// paid is what a placement is worth, before scaling and but for the waits, that lowered the
// cost by fell; before is the cost that it found, after the one that the next decision finds,
// and last tells that there is none.
func (r Reward) paid(fell, before, after, gamma float64, last bool) float64 {
	switch r.Kind {
	case StepReward:
		return before - after
	case ShapedReward:
		return objective.Shaping{Gamma: gamma}.Reward(before, after, last)
	case LevelReward:
		return -after
	}
	return fell
}

// waited is how many pods have had to wait, where that costs anything and is not yet in what
// the environment itself pays for the placement.
func (r Reward) waited(env *sim.Env) int {
	if env.Config().WaitCost == 0 || r.Kind == PlacementReward {
		return 0
	}
	return env.Outcome().Waited
}
