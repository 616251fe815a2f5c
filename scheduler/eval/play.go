package eval

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// Play runs the episode of a seed with a policy that always takes a best node, and returns
// how it went. Equal bests are chosen among by ties, or the first is taken where it is nil.
func Play(env *sim.Env, seed uint64, p policy.Policy, ties *rand.Rand) (sim.Outcome, error) {
	return play(context.Background(), env, seed, p, ties)
}

// play is Play, given up when the context is over: an episode of a thousand nodes is too long
// to wait for.
func play(ctx context.Context, env *sim.Env, seed uint64, p policy.Policy, ties *rand.Rand) (sim.Outcome, error) {
	decide := Deciding(p, ties)
	o, err := Episode(env, seed, func(env *sim.Env) (Choice, error) {
		if err := ctx.Err(); err != nil {
			return Choice{}, err
		}
		return decide(env)
	})
	if err != nil {
		return o, fmt.Errorf("%s on seed %d: %w", p.Name(), seed, err)
	}
	return o, nil
}

// Choice is where a pod goes.
type Choice struct {
	Candidate int               // which of the environment's candidates
	Devices   cluster.DeviceSet // of that node
}

// Decide returns where the pending pod goes.
type Decide func(env *sim.Env) (Choice, error)

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
		env.StepOn(choice.Candidate, choice.Devices)
	}
	return env.Outcome(), nil
}

// Placements is Episode, and where each arrival went: the names of its nodes, several where one
// was lost, none for a pod that no node had room for.
func Placements(env *sim.Env, seed uint64, decide Decide) (sim.Outcome, map[int][]string, error) {
	at := map[int][]string{}
	o, err := Episode(env, seed, func(env *sim.Env) (Choice, error) {
		choice, err := decide(env)
		if err == nil {
			pod := env.Next()
			at[pod] = append(at[pod], env.Snapshot().Nodes[env.Candidates()[choice.Candidate]].Name)
		}
		return choice, err
	})
	return o, at, err
}

// Deciding is a policy that takes a best node, chosen as in Play.
func Deciding(p policy.Policy, ties *rand.Rand) Decide {
	var buffer []float32
	return func(env *sim.Env) (Choice, error) {
		rows := env.Candidates()
		if len(rows) > cap(buffer) {
			buffer = make([]float32, 2*len(rows))
		}
		scores := buffer[:len(rows)]
		if err := p.Score(env.Snapshot(), env.Pending(), rows, scores); err != nil {
			return Choice{}, err
		}
		best := choose(scores, ties)
		return Choice{best, policy.Devices(p, env.Snapshot().Nodes[rows[best]], env.Pending())}, nil
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
