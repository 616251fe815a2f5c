package learn

import "gnnsched/gnn/graph"

// rollout is what a policy did in several environments, T placements in each: those of an
// environment lie side by side, the first environment's first.
type rollout struct {
	states  []*graph.Graph
	actions []int
	teacher []int // the teacher's choices; -1 for none
	logs    []float32
	values  []float64 // of the states
	rewards []float64
	last    []bool    // whether the placement is an episode's last: it ended, or was cut
	beyond  []float64 // value of the state that an episode was cut in; 0 where it ended

	advantages []float64
	returns    []float64 // advantage + value: what the critic is to learn
}

func newRollout(n int) *rollout {
	return &rollout{
		states: make([]*graph.Graph, n), actions: make([]int, n), teacher: make([]int, n), logs: make([]float32, n),
		values: make([]float64, n), rewards: make([]float64, n), last: make([]bool, n), beyond: make([]float64, n),
		advantages: make([]float64, n), returns: make([]float64, n),
	}
}

// judge computes advantages and returns. after holds the value of the state after each
// environment's last placement.
func (r *rollout) judge(after []float64, gamma, lambda float64) {
	steps := len(r.states) / len(after)
	values := make([]float64, steps+1)
	for e, v := range after {
		from, to := e*steps, (e+1)*steps
		copy(values, r.values[from:to])
		values[steps] = v
		advantages(r.advantages[from:to], r.rewards[from:to], values, r.last[from:to], r.beyond[from:to], gamma, lambda)
	}
	for i, a := range r.advantages {
		r.returns[i] = a + r.values[i]
	}
}

// compare takes from every advantage the mean of those that the environments of its group had at
// the same time. Groups are of so many environments, whose placements are length each.
func (r *rollout) compare(group, length int) {
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

// pick is out[i] = values[index[i]].
func pick[T any](values []T, index []int) []T {
	out := make([]T, len(index))
	for i, at := range index {
		out[i] = values[at]
	}
	return out
}
