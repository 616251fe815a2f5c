package heuristic

import "gnnsched/internal/cluster"

var mostAllocated = Heuristic{Name: fullest{}.Name(), About: "kube-scheduler's packing: the fullest node by share", New: fixed(fullest{}), RandomTies: true}

// fullest is kube-scheduler's NodeResourcesFit with the MostAllocated strategy over CPU
// and memory with weight one, as in Kubernetes 1.36: the fuller a node is after placement,
// the better. The scores are integers as there, so ties are common.
type fullest struct{}

// Name implements policy.Policy.
func (fullest) Name() string { return "most-allocated" }

// Score implements policy.Policy.
func (fullest) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	for i, v := range candidates {
		scores[i] = float32(fullness(s.Nodes[v], pod.Requests))
	}
	return nil
}

// fullness is the mean over the resources that the node offers of
// ⌊100 · used / allocatable⌋ after placement.
func fullness(n *cluster.Node, r cluster.Resources) int64 {
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
