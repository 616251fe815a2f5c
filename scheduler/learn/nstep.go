package learn

import "gnnsched/gnn/graph"

// nStep turns the steps of an episode into transitions over n steps (Sutton and Barto 2018,
// chapter 7): R = r_0 + γ r_1 + … + γ^(n-1) r_(n-1), bootstrapped with γ^n.
type nStep struct {
	n       int
	gamma   float64
	waiting []Transition // whose n rewards are not all in
	rewards []float64    // of the waiting ones
}

// begin notes a choice; its reward follows with reward.
func (s *nStep) begin(state *graph.Graph, action, teacher int) {
	s.waiting = append(s.waiting, Transition{State: state, Action: action, Teacher: teacher})
}

// reward notes the reward of the last choice.
func (s *nStep) reward(r float64) { s.rewards = append(s.rewards, r) }

// ready returns the oldest transition once it has n rewards, bootstrapping from next, the
// state now.
func (s *nStep) ready(next *graph.Graph) (Transition, bool) {
	if len(s.rewards) < s.n {
		return Transition{}, false
	}
	t := s.pop()
	t.Next = next
	return t, true
}

// pop takes the oldest transition out with the rewards that it has.
func (s *nStep) pop() Transition {
	t, f := s.waiting[0], 1.0
	for _, r := range s.rewards[:min(s.n, len(s.rewards))] {
		t.Return += f * r
		f *= s.gamma
	}
	t.Discount = f
	s.waiting, s.rewards = s.waiting[1:], s.rewards[1:]
	return t
}

// end empties the queue when an episode ends: nothing is bootstrapped.
func (s *nStep) end(add func(Transition)) {
	for len(s.rewards) > 0 {
		t := s.pop()
		t.Discount, t.Next = 0, nil
		add(t)
	}
	s.waiting = nil
}
