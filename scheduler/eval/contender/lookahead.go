package contender

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// Lookahead tries the candidates that its policy scores best, plays on with the policy from each, and
// takes the one with the least cost: one step of policy improvement by rollouts (Bertsekas and
// Tsitsiklis 1996, section 6.1.3).
//
// The rollouts meet the episode's own arrivals and departures, which are still to come, so that only the choices cause the difference of
// their costs. It knows the future, and is no policy that could run on a cluster. It is not safe for concurrent use.
type Lookahead struct {
	Policy     policy.Policy
	Candidates int     // to try at a decision; at least 1
	Horizon    int     // placements of a rollout, the first one included; at least 1
	waitCost   float64 // of a pod that has to wait, in units of the objective times one placement

	copied sim.Env
	scores []float32
}

// Decide is an eval.Decide.
func (l *Lookahead) Decide(env *sim.Env) (choice eval.Choice, err error) {
	if l.scores, err = eval.Scores(env, l.Policy, l.scores); err != nil {
		return choice, err
	}
	tried := best(l.scores, l.Candidates)
	choice.Candidate = tried[0]
	least := math.Inf(1)
	for _, i := range tried {
		if len(tried) == 1 {
			break
		}
		cost, err := l.cost(env, i)
		if err != nil {
			return choice, err
		}
		if cost < least {
			choice.Candidate, least = i, cost
		}
	}
	n := env.Snapshot().Nodes[env.Candidates()[choice.Candidate]]
	choice.Devices = policy.Devices(l.Policy, n, env.Pending())
	return choice, nil
}

// cost returns the sum of the objective's costs after each placement of a rollout that begins with candidate i, plus the cost of the pods
// that begin to wait meanwhile. env is not changed.
func (l *Lookahead) cost(env *sim.Env, i int) (sum float64, err error) {
	e := &l.copied
	env.CopyTo(e)
	waited := e.Waited()
	for step := 1; ; step++ {
		n := e.Snapshot().Nodes[e.Candidates()[i]]
		e.StepOn(i, policy.Devices(l.Policy, n, e.Pending()))
		sum += e.Cost()
		if step >= l.Horizon || e.Done() {
			return sum + l.waitCost*float64(e.Waited()-waited), nil
		}
		if l.scores, err = eval.Scores(e, l.Policy, l.scores); err != nil {
			return 0, err
		}
		i = policy.Best(l.scores)
	}
}

// best returns up to n candidates with the highest scores, the best first. Of nodes with equal scores, which are alike, it
// returns one, and none that preferences exclude.
func best(scores []float32, n int) []int {
	var order []int
	for i, v := range scores {
		if !math.IsInf(float64(v), -1) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	order = slices.CompactFunc(order, func(a, b int) bool { return scores[a] == scores[b] })
	return order[:min(len(order), n)]
}

// bounds makes players of a policy with an ability that no scheduler has. Keys are prefixes of names.
var bounds = map[string]func(p policy.Policy, ties *rand.Rand) player{
	"clairvoyant": func(p policy.Policy, _ *rand.Rand) player {
		return looking(&Lookahead{Policy: p, Candidates: 8, Horizon: 200, waitCost: 1})
	},
}

// player plays the episode of a seed.
type player func(env *sim.Env, seed uint64, stop func() error) (sim.Outcome, error)

// looking plays a policy's best candidates against the true future.
func looking(l *Lookahead) player {
	return func(env *sim.Env, seed uint64, stop func() error) (sim.Outcome, error) {
		return eval.Episode(env, seed, func(env *sim.Env) (eval.Choice, error) {
			if err := stop(); err != nil {
				return eval.Choice{}, err
			}
			return l.Decide(env)
		})
	}
}
