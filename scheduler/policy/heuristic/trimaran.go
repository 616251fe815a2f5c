package heuristic

import (
	"math"

	"gnnsched/internal/cluster"
)

// targetUtilization is TargetLoadPacking's default target, in per cent of a node's CPU.
const targetUtilization = 40

// TargetLoadPacking packs nodes up to a target of CPU utilization and spreads pods beyond it: the plugin of
// that name of kubernetes-sigs/scheduler-plugins (pkg/trimaran/targetloadpacking, KEP 61). With x the node's
// utilization after placement in per cent and T the target, the score is (100-T)·x/T + T up to T,
// T·(100-x)/(100-T) up to 100, and 0 above.
type TargetLoadPacking struct{}

// Name implements policy.Policy.
func (TargetLoadPacking) Name() string { return "target-load-packing" }

// Score implements policy.Policy.
func (TargetLoadPacking) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	usageScore(targetLoadScore).all(s, pod, candidates, scores)
	return nil
}

func targetLoadScore(n *cluster.Node, pod *cluster.Pod, _ float64) float64 {
	const t = targetUtilization
	capacity := n.Capacity(cluster.UsedCPU)
	if capacity <= 0 {
		return 0
	}
	x := percent * (cpuUsed(n) + predictCPU(pod.Requests, pod.Limits)) / capacity
	switch {
	case x <= t:
		return math.Round((percent-t)*x/t + t)
	case x <= percent:
		return math.Round(t * (percent - x) / (percent - t))
	}
	return 0
}

// The defaults of LoadVariationRiskBalancing.
const (
	safeMargin  = 1.0
	sensitivity = 1.0
)

// LoadVariationRiskBalancing evens out the risk of high usage: the plugin of that name of
// kubernetes-sigs/scheduler-plugins (pkg/trimaran/loadvariationriskbalancing, KEP 61). With μ the mean usage
// plus the pod's request and σ the standard deviation, as shares of the capacity and within 0 and 1, the risk of a
// resource is (μ + margin·σ^(1/sensitivity)) / 2. The score is 100·(1 - risk), the lesser of CPU and memory.
type LoadVariationRiskBalancing struct{}

// Name implements policy.Policy.
func (LoadVariationRiskBalancing) Name() string { return "load-variation-risk-balancing" }

// Score implements policy.Policy.
func (LoadVariationRiskBalancing) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	usageScore(loadVariationScore).all(s, pod, candidates, scores)
	return nil
}

func loadVariationScore(n *cluster.Node, pod *cluster.Pod, _ float64) float64 {
	cpu := riskScore(n, cluster.UsedCPU, float64(pod.Requests.MilliCPU))
	memory := riskScore(n, cluster.UsedMemory, float64(pod.Requests.Memory))
	return math.Round(min(cpu, memory))
}

// riskScore returns the score of one resource.
func riskScore(n *cluster.Node, d cluster.Dimension, request float64) float64 {
	capacity := n.Capacity(d)
	if capacity <= 0 {
		return 0
	}
	s, _ := measured(n, d)
	mean := max(min((s.Mean+request)/capacity, 1), 0)
	deviation := max(min(s.Deviation/capacity, 1), 0)
	deviation = max(min(safeMargin*math.Pow(deviation, 1/sensitivity), 1), 0)
	return maxScore * (1 - (mean+deviation)/2)
}
