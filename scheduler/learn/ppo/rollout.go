package ppo

import "gnnsched/gnn/graph"

// step is a placement that an update learns from.
type step struct {
	state   *graph.Graph
	action  int
	teacher int     // the teacher's choice; -1 for none
	log     float32 // log-probability of the action under the policy that took it
	value   float64 // of the state
	reward  float64

	last   bool         // whether the step is its episode's last: the episode ended, or was truncated
	beyond float64      // of a last step: the value of the state that the episode was left in, 0 if it ended
	after  *graph.Graph // that state, of a step of a running scheduler

	advantage float64
	target    float64 // advantage + value: the critic learns it
}

// rollout holds the steps that an update learns from. Those of one environment lie next to each other in the order of time, the first
// environment's first.
type rollout []step

// estimate computes advantages and targets. after holds, for each environment, the value of the state after its last step.
//
// The advantages are generalised advantage estimation (Schulman et al. 2016), A_t = Σ_k (γλ)^k δ_(t+k) with
// δ_t = r_t + γ V_(t+1) - V_t. The sum ends with the last step of an episode. There beyond takes the place of V_(t+1)
// (Pardo et al. 2018).
func (r rollout) estimate(after []float64, gamma, lambda float64) {
	steps := len(r) / len(after)
	for e, value := range after {
		next := 0.0
		for t := steps - 1; t >= 0; t-- {
			s := &r[e*steps+t]
			if s.last {
				value, next = s.beyond, 0
			}
			next = s.reward + gamma*value - s.value + gamma*lambda*next
			s.advantage, s.target = next, next+s.value
			value = s.value
		}
	}
}

// centre subtracts from every advantage the mean over its group of environments at the same time.
// group is the number of environments in a group, length the number of placements in each.
func (r rollout) centre(group, length int) {
	if group < 2 {
		return
	}
	for first := 0; first < len(r); first += group * length {
		for t := range length {
			mean := 0.0
			for e := range group {
				mean += r[first+e*length+t].advantage / float64(group)
			}
			for e := range group {
				r[first+e*length+t].advantage -= mean
			}
		}
	}
}

// column returns a value of every step at the indices.
func column[T any](r rollout, index []int, of func(*step) T) []T {
	out := make([]T, len(index))
	for i, at := range index {
		out[i] = of(&r[at])
	}
	return out
}
