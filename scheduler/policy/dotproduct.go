package policy

import "gnnsched/internal/cluster"

// DotProduct is the alignment score of Tetris (Grandl et al., Multi-Resource Packing for
// Cluster Schedulers, SIGCOMM 2014): the dot product of what the pod asks for and what the
// node has free before placement, both as fractions of what the node offers:
//
//	Σ over CPU, memory and GPU of (request / allocatable) · (free / allocatable)
//
// A pod that is large in one resource goes where much of that one is left. An overcommitted
// resource counts as having nothing free.
type DotProduct struct{}

// Name implements Policy.
func (DotProduct) Name() string { return "dot-product" }

// Score implements Policy.
func (DotProduct) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	ask := pod.Requests
	for i, v := range candidates {
		has, free := s.Nodes[v].Allocatable, s.Nodes[v].Free()
		scores[i] = float32(alignment(ask.MilliCPU, free.MilliCPU, has.MilliCPU) +
			alignment(ask.Memory, free.Memory, has.Memory) + alignment(ask.GPU, free.GPU, has.GPU))
	}
	return nil
}

// alignment is one resource's part of the dot product.
func alignment(request, free, allocatable int64) float64 {
	return cluster.Fraction(request, allocatable) * cluster.Fraction(max(free, 0), allocatable)
}
