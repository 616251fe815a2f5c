package heuristic

import (
	"math"

	"gnnsched/internal/cluster"
)

// What kube-scheduler takes a pod to ask for, when it scores by LeastAllocated, where the
// pod asks for nothing.
const (
	defaultMilliCPU = 100
	defaultMemory   = 200 << 20
	maxNodeScore    = 100
)

var kubernetes = Heuristic{Name: Kubernetes{}.Name(), About: "kube-scheduler's default: LeastAllocated and BalancedAllocation", New: fixed(Kubernetes{}), RandomTies: true}

// Kubernetes is kube-scheduler's default scoring as far as plain values know it:
// NodeResourcesFit with LeastAllocated plus NodeResourcesBalancedAllocation, each over CPU
// and memory with weight one, as in Kubernetes 1.36. The scores are integers as there, so
// ties are common.
type Kubernetes struct{}

// Name implements policy.Policy.
func (Kubernetes) Name() string { return "kube-scheduler" }

// Score implements policy.Policy.
func (Kubernetes) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	for i, v := range candidates {
		n := s.Nodes[v]
		scores[i] = float32(leastAllocated(n, pod.Requests) + balancedAllocation(n, pod.Requests))
	}
	return nil
}

// leastAllocated is the mean over the resources that the node offers of
// ⌊100 · free / allocatable⌋ after placement.
func leastAllocated(n *cluster.Node, r cluster.Resources) int64 {
	used := assumed(n, r)
	var sum, count int64
	for _, x := range [...][2]int64{{used.MilliCPU, n.Allocatable.MilliCPU}, {used.Memory, n.Allocatable.Memory}} {
		if x[1] == 0 {
			continue
		}
		count++
		if x[0] <= x[1] {
			sum += (x[1] - x[0]) * maxNodeScore / x[1]
		}
	}
	return sum / max(count, 1)
}

// assumed is what runs on the node and one more pod that asks for r, where a pod that asks
// for nothing is taken to ask for a little.
func assumed(n *cluster.Node, r cluster.Resources) cluster.Resources {
	used := orDefault(r, 1)
	for _, g := range n.Groups {
		used = used.Plus(orDefault(g.Each, g.Count))
	}
	return used
}

func orDefault(r cluster.Resources, count int64) cluster.Resources {
	if r.MilliCPU == 0 {
		r.MilliCPU = defaultMilliCPU
	}
	if r.Memory == 0 {
		r.Memory = defaultMemory
	}
	return r.Times(count)
}

// balancedAllocation is how much nearer the node's CPU and memory fractions come to each
// other by the placement: 75 for no change, up to 100 for the better. Pods that ask for
// nothing are not scored.
func balancedAllocation(n *cluster.Node, r cluster.Resources) int64 {
	if r.MilliCPU == 0 && r.Memory == 0 {
		return 0
	}
	with, without := balance(n.Requested.Plus(r), n.Allocatable), balance(n.Requested, n.Allocatable)
	return maxNodeScore/2 + (maxNodeScore/2+with-without)/2
}

// balance is ⌊100 · (1 - std)⌋ of the fractions of CPU and memory; for two values, std is
// half of their distance.
func balance(used, offered cluster.Resources) int64 {
	std := 0.0
	if offered.MilliCPU != 0 && offered.Memory != 0 {
		cpu := min(cluster.Fraction(used.MilliCPU, offered.MilliCPU), 1)
		mem := min(cluster.Fraction(used.Memory, offered.Memory), 1)
		std = math.Abs((cpu - mem) / 2)
	}
	return int64((1 - std) * maxNodeScore)
}
