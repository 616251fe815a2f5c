package objective

// Shaping is potential-based reward shaping (Ng, Harada & Russell 1999, Policy invariance
// under reward transformations, ICML): γΦ(s') - Φ(s) is added to the reward of each step from
// s to s', which changes no policy's rank. The potential Φ is minus the cost, and 0 once the
// episode is over. The reward that is shaped is what is reported in the end: minus the cost
// of the last state, and 0 before.
type Shaping struct {
	Gamma float64 // the discount, 0 to 1; that of the learner
}

// Reward is the shaped reward of a step that found the cost before and left the cost after;
// last tells that the episode is over with it.
func (s Shaping) Reward(before, after float64, last bool) float64 {
	if last {
		return before - after
	}
	return before - s.Gamma*after
}
