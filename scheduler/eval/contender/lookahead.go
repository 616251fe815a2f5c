package contender

import (
	"math"
	"math/rand/v2"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// Lookahead tries the candidates that its policy scores best, plays on with the policy from each, and
// takes the one with the least cost: one step of policy improvement by rollouts (Bertsekas and
// Tsitsiklis 1996, section 6.1.3).
//
// Without futures the rollouts meet the episode's own arrivals and departures, which are
// still to come. So it knows the future, and is no policy that could run on a cluster.
type Lookahead struct {
	eval.Rollout
	Candidates int // to try at a decision; at least 1

	// futures is the number of futures drawn at each decision (sim.Env.DrawFuture). Each candidate meets all of them, and the least mean cost
	// counts. The lookahead then knows only what a scheduler could know. 0: the true future.
	futures int
	margin  float64 // minimum lead over the policy's own choice, in standard errors of the difference over the futures

	rng   *rand.Rand // draws the futures
	drawn sim.Env
	costs [][]float64 // by future and candidate
}

// newLookahead returns a lookahead that knows the future, with the settings of `gnnsched eval`.
func newLookahead(p policy.Policy) *Lookahead {
	return &Lookahead{Rollout: eval.Rollout{Policy: p, Horizon: 200, WaitCost: 1}, Candidates: 8}
}

// NewExpecting returns a lookahead that draws futures, with the settings of `gnnsched eval`.
func NewExpecting(p policy.Policy) *Lookahead {
	return &Lookahead{Rollout: eval.Rollout{Policy: p, Horizon: 100, WaitCost: 1}, Candidates: 5, futures: 8, margin: 1}
}

// Seed begins an episode: with the same seed, the same futures are drawn.
func (l *Lookahead) Seed(seed uint64) { l.rng = rand.New(rand.NewPCG(seed, futureStream)) }

// futureStream is the random stream of drawn futures, apart from the streams of sim and workload.
const futureStream = 1 << 50

// Decide is an eval.Decide.
func (l *Lookahead) Decide(env *sim.Env) (eval.Choice, error) {
	scores, err := l.Scores(env)
	if err != nil {
		return eval.Choice{}, err
	}
	tried := eval.BestRollouts(scores, l.Candidates)
	choice := tried[0]
	if len(tried) > 1 {
		if err := l.try(env, tried); err != nil {
			return eval.Choice{}, err
		}
		choice = tried[l.best()]
	}
	n := env.Snapshot().Nodes[env.Candidates()[choice]]
	return eval.Choice{Candidate: choice, Devices: policy.Devices(l.Policy, n, env.Pending())}, nil
}

// try plays each candidate against each future.
func (l *Lookahead) try(env *sim.Env, tried []int) error {
	l.costs = l.costs[:0]
	for range max(l.futures, 1) {
		from := env
		if l.futures > 0 {
			from = &l.drawn
			env.CopyTo(from)
			if err := from.DrawFuture(l.rng); err != nil {
				return err
			}
		}
		costs := make([]float64, len(tried))
		for k, i := range tried {
			var err error
			if costs[k], err = l.Cost(from, i); err != nil {
				return err
			}
		}
		l.costs = append(l.costs, costs)
	}
	return nil
}

// best returns the candidate with the least mean cost. With drawn futures, that is the policy's own choice unless the other is better
// by margin standard errors of the difference.
func (l *Lookahead) best() (choice int) {
	var least float64
	for k := 1; k < len(l.costs[0]); k++ {
		var sum, squares float64
		for _, costs := range l.costs {
			d := costs[k] - costs[0]
			sum, squares = sum+d, squares+d*d
		}
		n := float64(len(l.costs))
		mean := sum / n
		if n > 1 && mean+l.margin*math.Sqrt(max(squares/n-mean*mean, 0)/(n-1)) >= 0 {
			continue
		}
		if mean < least {
			choice, least = k, mean
		}
	}
	return choice
}

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
