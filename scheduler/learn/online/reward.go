package online

import (
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/run"
)

// reward returns the reward of the step before next for a learner with the discount gamma. Each pod
// that began to wait in between costs waitCost, before scaling. A scheduler's workload has no last
// step.
func reward(r run.Reward, gamma, waitCost float64, before, next experience.Step) float64 {
	unscaled := r.Unscaled(run.Change{Before: before.Before, Fall: before.Before - before.After, After: next.Before}, gamma)
	return r.Scale * float64(before.State.Nodes()) * (unscaled - waitCost*float64(next.Waited-before.Waited))
}
