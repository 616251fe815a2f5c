package eval

import (
	"fmt"
	"math/rand/v2"

	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// Play runs the episode of a seed with a policy that always takes a best node, and returns
// how it went. Equal bests are chosen among by ties, or the first is taken where it is nil.
func Play(env *sim.Env, seed uint64, p policy.Policy, ties *rand.Rand) (sim.Outcome, error) {
	o, err := Episode(env, seed, Deciding(p, ties))
	if err != nil {
		return o, fmt.Errorf("%s on seed %d: %w", p.Name(), seed, err)
	}
	return o, nil
}

// Decide returns which of the environment's candidates the pending pod gets.
type Decide func(env *sim.Env) (choice int, err error)

// Episode runs the episode of a seed with whatever decides, and returns how it went.
func Episode(env *sim.Env, seed uint64, decide Decide) (sim.Outcome, error) {
	if err := env.Reset(seed); err != nil {
		return sim.Outcome{}, err
	}
	for !env.Done() {
		choice, err := decide(env)
		if err != nil {
			return sim.Outcome{}, err
		}
		env.Step(choice)
	}
	return env.Outcome(), nil
}

// Deciding is a policy that takes a best node, chosen as in Play.
func Deciding(p policy.Policy, ties *rand.Rand) Decide {
	var buffer []float32
	return func(env *sim.Env) (int, error) {
		rows := env.Candidates()
		if len(rows) > cap(buffer) {
			buffer = make([]float32, 2*len(rows))
		}
		scores := buffer[:len(rows)]
		if err := p.Score(env.Snapshot(), env.Pending(), rows, scores); err != nil {
			return 0, err
		}
		return choose(scores, ties), nil
	}
}

// choose returns the index of a best score. Each of several is as likely.
func choose(scores []float32, ties *rand.Rand) int {
	best := policy.Best(scores)
	if ties == nil {
		return best
	}
	equal := 0
	for i, v := range scores {
		if v != scores[best] {
			continue
		}
		if equal++; ties.IntN(equal) == 0 {
			best = i
		}
	}
	return best
}
