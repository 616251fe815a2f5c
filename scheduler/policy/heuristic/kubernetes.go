package heuristic

import (
	"math"

	"gnnsched/internal/cluster"
)

var kubernetes = Heuristic{
	Name:  Kubernetes{}.Name(),
	About: "kube-scheduler's default: LeastAllocated and BalancedAllocation, and in the simulator the spreading of replicas",
	New:   fixed(Kubernetes{}), RandomTies: true,
}

var mostAllocated = Heuristic{
	Name:  fullest{}.Name(),
	About: "kube-scheduler's packing: the fullest node by share",
	New:   fixed(fullest{}), RandomTies: true,
}

// maxNodeScore is the highest score of kube-scheduler's plugins.
const maxNodeScore = 100

// A pod that requests nothing counts as requesting this much when kube-scheduler scores by
// LeastAllocated and similar strategies.
const (
	defaultMilliCPU = 100
	defaultMemory   = 200 << 20
)

// Kubernetes is kube-scheduler's default scoring of requests: the sum of NodeResourcesFit with the
// strategy LeastAllocated and NodeResourcesBalancedAllocation, each over CPU and memory with weight
// one, as in Kubernetes 1.36. The scores are integers as in kube-scheduler, so ties are common. The
// simulator adds the scores of preferences.
type Kubernetes struct{}

// Name implements policy.Policy.
func (Kubernetes) Name() string { return "kube-scheduler" }

// AddsPreferences implements policy.Upstream.
func (Kubernetes) AddsPreferences() {}

// Score implements policy.Policy.
func (Kubernetes) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	for i, v := range candidates {
		n := s.Nodes[v]
		scores[i] = float32(leastAllocated(n, pod.Requests) + balancedAllocation(n, pod.Requests))
	}
	return nil
}

// leastAllocated returns the mean of ⌊100 · free / allocatable⌋ after placement, over the resources
// that the node offers.
func leastAllocated(n *cluster.Node, r cluster.Resources) int64 {
	return meanScore(n, r, func(used, offered int64) int64 { return max(offered-used, 0) * maxNodeScore / offered })
}

// meanScore returns the mean of a score over the resources that the node offers. score gets what is
// used after placement and what is offered, in thousandths of a core or in bytes.
func meanScore(n *cluster.Node, r cluster.Resources, score func(used, offered int64) int64) int64 {
	used := usedWith(n, r)
	var sum, count int64
	for _, x := range [...]struct{ used, offered int64 }{{used.MilliCPU, n.Allocatable.MilliCPU}, {used.Memory, n.Allocatable.Memory}} {
		if x.offered == 0 {
			continue
		}
		count++
		sum += score(x.used, x.offered)
	}
	return sum / max(count, 1)
}

// usedWith returns what the pods on the node and one more pod that requests r use. A pod that
// requests nothing counts with the defaults.
func usedWith(n *cluster.Node, r cluster.Resources) cluster.Resources {
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

// balancedAllocation returns how much the placement brings the node's CPU and memory fractions
// closer together: 75 for no change, up to 100 for an improvement. Pods that request nothing score
// 0.
func balancedAllocation(n *cluster.Node, r cluster.Resources) int64 {
	if r.MilliCPU == 0 && r.Memory == 0 {
		return 0
	}
	with, without := balance(n.Requested.Plus(r), n.Allocatable), balance(n.Requested, n.Allocatable)
	return maxNodeScore/2 + (maxNodeScore/2+with-without)/2
}

// balance returns ⌊100 · (1 - std)⌋ of the fractions of CPU and memory. Of two values std is half
// of their distance.
func balance(used, offered cluster.Resources) int64 {
	std := 0.0
	if offered.MilliCPU != 0 && offered.Memory != 0 {
		cpu := min(cluster.Fraction(used.MilliCPU, offered.MilliCPU), 1)
		mem := min(cluster.Fraction(used.Memory, offered.Memory), 1)
		std = math.Abs((cpu - mem) / 2)
	}
	return int64((1 - std) * maxNodeScore)
}

// fullest is kube-scheduler's NodeResourcesFit with the strategy MostAllocated over CPU and memory
// with weight one, as in Kubernetes 1.36: the fuller a node after placement, the better. The scores
// are integers as in kube-scheduler, so ties are common.
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

// fullness returns the mean of ⌊100 · used / allocatable⌋ after placement, over the resources that
// the node offers.
func fullness(n *cluster.Node, r cluster.Resources) int64 {
	return meanScore(n, r, func(used, offered int64) int64 { return min(used, offered) * maxNodeScore / offered })
}
