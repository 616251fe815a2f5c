package contender

import (
	"math/rand/v2"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// bounds makes players of a policy with an ability that no scheduler has: knowledge or time. Keys are prefixes of names.
var bounds = map[string]func(p policy.Policy, ties *rand.Rand) player{
	"clairvoyant": func(p policy.Policy, _ *rand.Rand) player { return looking(newLookahead(p)) },
	"expecting":   func(p policy.Policy, _ *rand.Rand) player { return looking(NewExpecting(p)) },
}

// player plays the episode of a seed.
type player func(env *sim.Env, seed uint64, stop func() error) (sim.Outcome, error)

// looking plays a policy's best candidates against the true future, or against drawn ones.
func looking(l *Lookahead) player {
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
