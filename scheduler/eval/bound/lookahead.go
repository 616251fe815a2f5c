package bound

import (
	"math"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/rollout"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// Lookahead tries the candidates that its policy scores best, plays on with the policy from each, and
// takes the one with the least cost: one step of policy improvement by rollouts (Bertsekas and
// Tsitsiklis 1996, section 6.1.3). The rollouts meet the episode's own arrivals and departures, which are
// still to come. So it knows the future, and is no policy that could run on a cluster.
type Lookahead struct {
	rollout.Rollout
	Candidates int // to try at a decision; at least 1
}

// NewLookahead returns a lookahead with the settings of `gnnsched eval`.
func NewLookahead(p policy.Policy) *Lookahead {
	return &Lookahead{Rollout: rollout.Rollout{Policy: p, Horizon: 200, WaitCost: 1}, Candidates: 8}
}

// Decide is an eval.Decide.
func (l *Lookahead) Decide(env *sim.Env) (eval.Choice, error) {
	scores, err := l.Scores(env)
	if err != nil {
		return eval.Choice{}, err
	}
	tried := rollout.Best(scores, l.Candidates)
	choice, least := tried[0], math.Inf(1)
	for _, i := range tried {
		if len(tried) == 1 {
			break
		}
		cost, err := l.Cost(env, i)
		if err != nil {
			return eval.Choice{}, err
		}
		if cost < least {
			choice, least = i, cost
		}
	}
	n := env.Snapshot().Nodes[env.Candidates()[choice]]
	return eval.Choice{Candidate: choice, Devices: policy.Devices(l.Policy, n, env.Pending())}, nil
}
