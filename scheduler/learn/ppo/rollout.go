package ppo

import "gnnsched/gnn/graph"

// rollout holds the placements that an update learns from, an entry of each slice a placement. Those
// of one environment lie next to each other in the order of time, the first environment's first.
type rollout struct {
	states  []*graph.Graph
	actions []int
	teacher []int     // the teacher's choices; -1 for none
	logs    []float32 // log-probabilities of the actions under the policy that took them
	values  []float64 // of the states
	rewards []float64
	last    []bool    // whether the placement is its episode's last: the episode ended, or was truncated
	beyond  []float64 // of a last placement: the value of the state that the episode was left in, 0 if it ended

	advantages []float64
	returns    []float64 // advantage + value: the critic's target
}

// newRollout returns a rollout of n placements.
func newRollout(n int) *rollout {
	return &rollout{
		states: make([]*graph.Graph, n), actions: make([]int, n), teacher: make([]int, n), logs: make([]float32, n),
		values: make([]float64, n), rewards: make([]float64, n), last: make([]bool, n), beyond: make([]float64, n),
		advantages: make([]float64, n), returns: make([]float64, n),
	}
}

// estimate computes advantages and returns. after holds, for each environment, the value of the
// state after its last placement.
func (r *rollout) estimate(after []float64, gamma, lambda float64) {
	steps := len(r.states) / len(after)
	values := make([]float64, steps+1)
	for e, v := range after {
		from, to := e*steps, (e+1)*steps
		copy(values, r.values[from:to])
		values[steps] = v
		sequence{r.rewards[from:to], values, r.last[from:to], r.beyond[from:to]}.advantages(r.advantages[from:to], gamma, lambda)
	}
	for i, a := range r.advantages {
		r.returns[i] = a + r.values[i]
	}
}

// centre subtracts from every advantage the mean over its group of environments at the same time.
// group is the number of environments in a group, length the number of placements in each.
func (r *rollout) centre(group, length int) {
	if group < 2 {
		return
	}
	for first := 0; first < len(r.advantages); first += group * length {
		for t := range length {
			mean := 0.0
			for e := range group {
				mean += r.advantages[first+e*length+t] / float64(group)
			}
			for e := range group {
				r.advantages[first+e*length+t] -= mean
			}
		}
	}
}

// pick returns the values at the indices.
func pick[T any](values []T, index []int) []T {
	out := make([]T, len(index))
	for i, at := range index {
		out[i] = values[at]
	}
	return out
}
