package objective

// Shaping is potential-based reward shaping (Ng, Harada & Russell 1999, Policy invariance under
// reward transformations, ICML). It adds γΦ(s') - Φ(s) to the reward of each step from s to s', which
// does not change the order of policies. The potential Φ is minus the cost, and 0 after the episode.
// The reward without shaping is minus the cost of the last state for the last step, and 0 before.
type Shaping struct {
	Gamma float64 // the learner's discount, 0 to 1
}

// Reward returns the shaped reward of a step, given the costs before and after it. last marks the
// last step of an episode.
func (s Shaping) Reward(before, after float64, last bool) float64 {
	if last {
		return before - after
	}
	return before - s.Gamma*after
}
