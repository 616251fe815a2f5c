package heuristic

import (
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
)

var roundRobin = Heuristic{
	Name:        "round-robin",
	About:       "the nodes in turn",
	New:         func(policy.Setting) policy.Policy { return &inTurn{} },
	NotImitable: hasState,
}

// inTurn takes the nodes in turn, in the snapshot's order: the first candidate after the node that
// scored best last time, which it assumes was chosen. When nodes join or leave, it continues at the
// same place in the list, so it may skip a node or repeat one.
type inTurn struct{ next int }

// Name implements policy.Policy.
func (*inTurn) Name() string { return "round-robin" }

// Score implements policy.Policy. The score is minus the number of nodes until the candidate's
// turn.
func (r *inTurn) Score(s *cluster.Snapshot, _ *cluster.Pod, candidates []int32, scores []float32) error {
	nodes := len(s.Nodes)
	for i, v := range candidates {
		away := int(v) - r.next
		if away < 0 {
			away += nodes
		}
		scores[i] = float32(-away)
	}
	if best := policy.Best(scores); best >= 0 {
		r.next = (int(candidates[best]) + 1) % nodes
	}
	return nil
}
