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

var dotProduct = Heuristic{
	Name:  alignment{}.Name(),
	About: "Tetris: the node whose free resources are most aligned with the pod's requests",
	New:   fixed(alignment{}), RandomTies: true,
}

// alignment is the alignment score of Tetris (Grandl et al., Multi-Resource Packing for Cluster
// Schedulers, SIGCOMM 2014): the dot product of the pod's requests and the node's free resources
// before placement, both as fractions of what the node offers:
//
//	Σ over CPU, memory and GPU of (request / allocatable) · (free / allocatable)
//
// A pod that is large in one resource goes where much of that resource is left. An overcommitted
// resource counts as having nothing free.
type alignment struct{}

// Name implements policy.Policy.
func (alignment) Name() string { return "dot-product" }

// Score implements policy.Policy.
func (alignment) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	r := pod.Requests
	for i, v := range candidates {
		has, free := s.Nodes[v].Allocatable, s.Nodes[v].Free()
		scores[i] = float32(aligned(r.MilliCPU, free.MilliCPU, has.MilliCPU) +
			aligned(r.Memory, free.Memory, has.Memory) + aligned(r.GPU, free.GPU, has.GPU))
	}
	return nil
}

// aligned returns one resource's term of the dot product.
func aligned(request, free, allocatable int64) float64 {
	return cluster.Fraction(request, allocatable) * cluster.Fraction(max(free, 0), allocatable)
}
