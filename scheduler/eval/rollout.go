package eval

import (
	"cmp"
	"math"
	"slices"

	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// Rollout continues with a policy in a copy of the environment that meets the same arrivals and departures. So two choices at a decision
// have the same luck, and only the choices cause the difference of their costs. A Rollout is not safe for concurrent use.
type Rollout struct {
	Policy  policy.Policy
	Horizon int // placements, the first one included; at least 1
	// WaitCost is the cost of a pod that has to wait, in units of the objective times one placement.
	WaitCost float64

	copied sim.Env
	scores []float32
}

// Cost returns the sum of the objective's costs after each placement of a rollout that begins with candidate i, plus the cost of the pods
// that begin to wait meanwhile. env is not changed.
func (r *Rollout) Cost(env *sim.Env, i int) (float64, error) {
	e := &r.copied
	env.CopyTo(e)
	waited := e.Waited()
	var sum float64
	for step := 1; ; step++ {
		n := e.Snapshot().Nodes[e.Candidates()[i]]
		e.StepOn(i, policy.Devices(r.Policy, n, e.Pending()))
		sum += e.Cost()
		if step >= r.Horizon || e.Done() {
			return sum + r.WaitCost*float64(e.Waited()-waited), nil
		}
		scores, err := r.Scores(e)
		if err != nil {
			return 0, err
		}
		i = policy.Best(scores)
	}
}

// Scores returns the policy's scores of the candidates, after preferences (Scores). They are valid
// until the next call of a method.
func (r *Rollout) Scores(env *sim.Env) (scores []float32, err error) {
	r.scores, err = Scores(env, r.Policy, r.scores)
	return r.scores, err
}

// BestRollouts returns up to n candidates with the highest scores, the best first. Of nodes with equal scores, which are alike, it
// returns one, and none that preferences exclude.
func BestRollouts(scores []float32, n int) []int {
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
