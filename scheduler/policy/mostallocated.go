package policy

import "gnnsched/internal/cluster"

// MostAllocated is kube-scheduler's NodeResourcesFit with the MostAllocated strategy over CPU
// and memory with weight one, as in Kubernetes 1.36: the fuller a node is after placement,
// the better. The scores are integers as there, so ties are common.
type MostAllocated struct{}

// Name implements Policy.
func (MostAllocated) Name() string { return "most-allocated" }

// Score implements Policy.
func (MostAllocated) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	for i, v := range candidates {
		scores[i] = float32(mostAllocated(s.Nodes[v], pod.Requests))
	}
	return nil
}

// mostAllocated is the mean over the resources that the node offers of
// ⌊100 · used / allocatable⌋ after placement.
func mostAllocated(n *cluster.Node, r cluster.Resources) int64 {
	used := assumed(n, r)
	var sum, count int64
	for _, x := range [...][2]int64{{used.MilliCPU, n.Allocatable.MilliCPU}, {used.Memory, n.Allocatable.Memory}} {
		if x[1] == 0 {
			continue
		}
		count++
		sum += min(x[0], x[1]) * maxNodeScore / x[1]
	}
	return sum / max(count, 1)
}
