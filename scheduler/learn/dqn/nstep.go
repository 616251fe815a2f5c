package dqn

// transition is a placement and what followed from it over n steps.
type transition struct {
	state    *frame
	action   int     // index of the chosen candidate
	teacher  int     // index of the teacher's choice; -1 for none
	ret      float64 // the return: the discounted sum of the next n rewards
	next     *frame  // state after n steps; nil if the episode ended before
	discount float64 // gamma to the power of the steps to next; 0 without it
}

// nStep makes transitions over n steps out of the steps of an episode (Sutton and Barto 2018,
// chapter 7): R = r_0 + γ r_1 + … + γ^(n-1) r_(n-1), bootstrapped with γ^n.
type nStep struct {
	n       int
	gamma   float64
	waiting []transition // which lack some of their n rewards
	rewards []float64    // of the waiting ones
}

// begin notes a choice. Its reward follows with reward.
func (s *nStep) begin(state *frame, action, teacher int) {
	s.waiting = append(s.waiting, transition{state: state, action: action, teacher: teacher})
}

// latest returns the state of the last choice; nil for none.
func (s *nStep) latest() *frame {
	if len(s.waiting) == 0 {
		return nil
	}
	return s.waiting[len(s.waiting)-1].state
}

// reward notes the reward of the last choice.
func (s *nStep) reward(r float64) { s.rewards = append(s.rewards, r) }

// ready returns the oldest transition once it has n rewards. It bootstraps from next, the present
// state.
func (s *nStep) ready(next *frame) (transition, bool) {
	if len(s.rewards) < s.n {
		return transition{}, false
	}
	t := s.pop()
	t.next = next
	return t, true
}

// pop takes out the oldest transition with the rewards that it has.
func (s *nStep) pop() transition {
	t, f := s.waiting[0], 1.0
	for _, r := range s.rewards[:min(s.n, len(s.rewards))] {
		t.ret += f * r
		f *= s.gamma
	}
	t.discount = f
	s.waiting, s.rewards = s.waiting[1:], s.rewards[1:]
	return t
}

// end empties the queue at the end of an episode. These transitions do not bootstrap.
func (s *nStep) end(add func(transition)) {
	for len(s.rewards) > 0 {
		t := s.pop()
		t.discount, t.next = 0, nil
		add(t)
	}
	s.waiting = nil
}
