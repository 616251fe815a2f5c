package policy

import "gnnsched/internal/cluster"

// RoundRobin takes the nodes in turn, in the snapshot's order: the first candidate after the
// node that it chose last. It takes its best to be what is done. Where nodes join or leave
// it goes on from the same place in the list, and may pass over one or repeat one.
type RoundRobin struct{ next int }

// NewRoundRobin returns a policy that begins at the first node.
func NewRoundRobin() *RoundRobin { return &RoundRobin{} }

// Name implements Policy.
func (*RoundRobin) Name() string { return "round-robin" }

// Score implements Policy. A score is minus the number of nodes until the candidate's turn.
func (r *RoundRobin) Score(s *cluster.Snapshot, _ *cluster.Pod, candidates []int32, scores []float32) error {
	nodes := len(s.Nodes)
	for i, v := range candidates {
		away := int(v) - r.next
		if away < 0 {
			away += nodes
		}
		scores[i] = float32(-away)
	}
	if best := Best(scores); best >= 0 {
		r.next = (int(candidates[best]) + 1) % nodes
	}
	return nil
}
