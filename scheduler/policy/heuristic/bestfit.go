package heuristic

import "gnnsched/internal/cluster"

var bestFit = Heuristic{
	Name:  leastLeft{}.Name(),
	About: "the node with the least left, by amount",
	New:   fixed(leastLeft{}), RandomTies: true,
}

// leastLeft prefers the node with the least CPU and memory left after placement, each divided by
// the largest amount that any candidate offers. Unlike most-allocated it compares amounts, not
// fractions: of two equally full nodes the smaller one wins.
type leastLeft struct{}

// Name implements policy.Policy.
func (leastLeft) Name() string { return "best-fit" }

// Score implements policy.Policy.
func (leastLeft) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	var most cluster.Resources
	for _, v := range candidates {
		a := s.Nodes[v].Allocatable
		most.MilliCPU, most.Memory = max(most.MilliCPU, a.MilliCPU), max(most.Memory, a.Memory)
	}
	for i, v := range candidates {
		left := s.Nodes[v].Free().Minus(pod.Requests)
		scores[i] = -float32(cluster.Fraction(left.MilliCPU, most.MilliCPU) + cluster.Fraction(left.Memory, most.Memory))
	}
	return nil
}
