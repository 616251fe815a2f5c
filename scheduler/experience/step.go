package experience

import (
	"fmt"
	"math"

	"gnnsched/gnn/graph"
)

// Step is one placement: what the scheduler saw, what it chose and what that did to the
// objective. What it is worth is the trainer's to say. The state that came of it is that of
// the step with the next number.
type Step struct {
	Number        uint64 // a gap after a number means that a step is lost
	State         *graph.Graph
	Action        int     // index of the chosen one among the state's candidates
	Before, After float64 // the objective's cost without and with the placement, all else equal

	Waited  uint64  // pods that have had to wait so far: found no node when they were first tried
	Network uint64  // fingerprint of the checkpoint that scored the candidates
	Log     float64 // log-probability of the action, which an actor-critic draws; 0 for other networks
}

// Validate checks that the state is well-formed, the action one of its candidates and every
// value finite.
func (s Step) Validate() error {
	if err := s.State.Validate(); err != nil {
		return fmt.Errorf("step %d: %w", s.Number, err)
	}
	if s.Action < 0 || s.Action >= len(s.State.Candidates) {
		return fmt.Errorf("step %d: action %d of %d candidates", s.Number, s.Action, len(s.State.Candidates))
	}
	if s.Log > 0 {
		return fmt.Errorf("step %d: the action's log-probability is %v, want 0 at most", s.Number, s.Log)
	}
	sum := s.Before + s.After + s.Log // not finite if one of the values is not
	add := func(values []float32) {
		for _, v := range values {
			sum += float64(v)
		}
	}
	add(s.State.NodeX)
	add(s.State.PodX)
	add(s.State.ClusterX)
	add(s.State.CandidateX)
	for _, g := range s.State.Groups {
		add(g.X)
		add(g.Weight)
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return fmt.Errorf("step %d: a value is not finite", s.Number)
	}
	return nil
}
