package contender

import (
	"fmt"
	"math/rand/v2"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/bound"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// bounds makes players of a policy with an ability that no scheduler has: knowledge, time or movable pods. Keys are prefixes of names.
var bounds = map[string]func(p policy.Policy, ties *rand.Rand) player{
	"clairvoyant": func(p policy.Policy, _ *rand.Rand) player { return looking(bound.NewLookahead(p)) },
	"expecting":   func(p policy.Policy, _ *rand.Rand) player { return looking(bound.NewExpecting(p)) },
	"moved":       moved,
}

// player plays the episode of a seed.
type player func(env *sim.Env, seed uint64, stop func() error) (sim.Outcome, error)

// looking plays a policy's best candidates against the true future, or against drawn ones.
func looking(l *bound.Lookahead) player {
	return func(env *sim.Env, seed uint64, stop func() error) (sim.Outcome, error) {
		l.Seed(seed)
		return eval.Episode(env, seed, func(env *sim.Env) (eval.Choice, error) {
			if err := stop(); err != nil {
				return eval.Choice{}, err
			}
			return l.Decide(env)
		})
	}
}

// movedEvery is the number of placements between two states in which pods are moved.
const movedEvery = 100

// moved plays the policy, and replaces the costs over time by those with all pods where they are best
// (bound.Moved): means over a sample of the states after the fill. All else is the policy's.
func moved(p policy.Policy, ties *rand.Rand) player {
	return func(env *sim.Env, seed uint64, stop func() error) (sim.Outcome, error) {
		if err := bound.Movable(env, seed); err != nil {
			return sim.Outcome{}, fmt.Errorf("moved: %w", err)
		}
		decide := eval.Deciding(p, ties)
		var cost float64
		var states, placed int
		o, err := eval.Episode(env, seed, func(env *sim.Env) (eval.Choice, error) {
			if placed++; placed%movedEvery == 0 && env.Filled() {
				if err := stop(); err != nil {
					return eval.Choice{}, err
				}
				cost += bound.Moved(env.Snapshot().Nodes, env.Config().Objective)
				states++
			}
			return decide(env)
		})
		if err != nil {
			return o, err
		}
		o.Cost = bound.Moved(env.Snapshot().Nodes, env.Config().Objective)
		o.MeanCost = o.Cost
		if states > 0 {
			o.MeanCost = cost / float64(states)
		}
		return o, nil
	}
}
