package experience

import (
	"errors"
	"fmt"
	"math"

	"gnnsched/gnn/graph"
)

// Step is one placement: the state that the scheduler saw, the node that it chose, and the
// objective's cost before and after. It holds no reward; the learner computes that from the
// costs. The step that Follows it holds the next state.
type Step struct {
	Actor string // who made the placement; at most maxActor bytes
	Epoch uint64 // which life of the actor: it differs after each restart
	// Number counts the actor's placements in this epoch, including steps that never arrive: lost steps, pods that did not get their node, and
	// placements among several nodes that the network did not see or could not score. A pod with one feasible node counts as no placement:
	// there was nothing to choose.
	Number uint64

	State *graph.Graph

	Action        int     // index of the chosen node among the state's candidates
	Before, After float64 // the objective's cost without and with this placement, all else equal

	Waited  uint64 // pods of this epoch so far that found no node at their first attempt
	Network uint64 // fingerprint of the checkpoint that scored the candidates
	// Features is the hash of the state's features, feature.Layout.Hash: two sets may have vectors of
	// the same lengths.
	Features string
	Log      float64 // log-probability with which an actor-critic drew the action; 0 for other networks
	// Overruled is true if other scores outweighed the network's, which chose another node than Action. Log is 0 then: the probability of
	// Action is not known.
	Overruled bool
}

// maxActor is the longest name of an actor in bytes.
const maxActor = 1024

// Follows reports whether s is the placement that its actor made right after the one of before,
// with none missing between them.
func (s Step) Follows(before Step) bool {
	return s.SameLife(before) && s.Number == before.Number+1
}

// SameLife reports whether one life of one actor made both steps, so that their Number and Waited have the same origin.
func (s Step) SameLife(other Step) bool {
	return s.Actor == other.Actor && s.Epoch == other.Epoch
}

// Validate checks that the state is well-formed, that the action is one of its candidates and
// that every value is finite.
func (s Step) Validate() error {
	if len(s.Features) > maxActor {
		return fmt.Errorf("step %d: the hash of the features has %d bytes", s.Number, len(s.Features))
	}
	if len(s.Actor) > maxActor {
		return fmt.Errorf("step %d: the actor's name has %d bytes, over the limit of %d", s.Number, len(s.Actor), maxActor)
	}
	if s.Log > 0 {
		return fmt.Errorf("step %d: the action's log-probability is %v, want at most 0", s.Number, s.Log)
	}
	if v := s.Before + s.After + s.Log; math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("step %d: a value is not finite", s.Number)
	}
	if s.State == nil {
		return fmt.Errorf("step %d: it has no state", s.Number)
	}
	if err := s.validateGraph(); err != nil {
		return fmt.Errorf("step %d: %w", s.Number, err)
	}
	return nil
}

// maxZones is far more zones than any cluster has. A learner allocates memory for each zone of a
// batch, so a broken stream must not claim billions of them.
const maxZones = 1 << 16

// maxWidth is far longer than any feature vector.
const maxWidth = 1 << 12

// validateGraph checks the state and the action.
func (s Step) validateGraph() error {
	w := s.State.FeatureWidths()
	for _, width := range []int{w.Node, w.Group, w.Pod, w.Cluster, w.Candidate, w.Path} {
		if width < 0 || width > maxWidth {
			return fmt.Errorf("feature vectors of the lengths %v", w)
		}
	}
	if s.State.Zones < 0 || s.State.Zones > maxZones || s.State.Kept != nil {
		return fmt.Errorf("%d zones, and kept rows of %d nodes", s.State.Zones, len(s.State.Kept))
	}
	if err := s.State.Validate(); err != nil {
		return err
	}
	if s.Action < 0 || s.Action >= len(s.State.Candidates) {
		return fmt.Errorf("action %d of %d candidates", s.Action, len(s.State.Candidates))
	}
	g := s.State
	for _, groups := range g.Groups {
		if err := finite(groups.X, groups.Weight); err != nil {
			return err
		}
	}
	return finite(g.NodeX, g.PodX, g.ClusterX, g.CandidateX, g.PeerWeight, g.PathX)
}

// finite returns an error if a value is not finite.
func finite(lists ...[]float32) error {
	sum := 0.0 // not finite if one of the values is not
	for _, values := range lists {
		for _, v := range values {
			sum += float64(v)
		}
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return errors.New("a value is not finite")
	}
	return nil
}
