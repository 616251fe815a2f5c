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
	if err := env.Reset(seed); err != nil {
		return sim.Outcome{}, err
	}
	var buffer []float32
	for !env.Done() {
		rows := env.Candidates()
		if len(rows) > cap(buffer) {
			buffer = make([]float32, 2*len(rows))
		}
		scores := buffer[:len(rows)]
		if err := p.Score(env.Snapshot(), env.Pending(), rows, scores); err != nil {
			return sim.Outcome{}, fmt.Errorf("%s on seed %d: %w", p.Name(), seed, err)
		}
		env.Step(choose(scores, ties))
	}
	return env.Outcome(), nil
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
