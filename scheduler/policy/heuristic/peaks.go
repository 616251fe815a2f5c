package heuristic

import (
	"math"

	"gnnsched/internal/cluster"
)

// peaksCurve is K2 of the power model in the plugin's sample.
const peaksCurve = -0.07186049052516228

// Peaks prefers the node whose power rises least: the plugin of that name of kubernetes-sigs/scheduler-plugins
// (pkg/trimaran/peaks). A node draws P(u) = K0 + K1·e^(K2·u) at a CPU utilization of u per cent, and is scored by
// K1·(e^(K2·after) - e^(K2·before)), scaled so that the best candidate has 100 and the worst 0. The plugin wants
// K0, K1 and K2 of each node. Here K2 is that of its sample, and K0 and K1 follow from the node's model in package power:
// what it draws when it is idle and when it is full. A node that would be more than full has 0.
type Peaks struct{}

// Name implements policy.Policy.
func (Peaks) Name() string { return "peaks" }

// Score implements policy.Policy.
func (Peaks) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	low, high := math.Inf(1), math.Inf(-1)
	for i, v := range candidates {
		rise := powerRise(s.Nodes[v], pod)
		scores[i] = float32(rise)
		if !math.IsInf(rise, 1) {
			low, high = min(low, float64(scores[i])), max(high, float64(scores[i]))
		}
	}
	for i, rise := range scores {
		switch {
		case math.IsInf(float64(rise), 1):
			scores[i] = 0
		case high > low:
			scores[i] = float32(maxScore - math.Trunc(maxScore*(float64(rise)-low)/(high-low)))
		default:
			scores[i] = maxScore
		}
	}
	return nil
}

// powerRise returns by how many watts the node's power rises with the pod; +Inf if its CPU would be more than full.
func powerRise(n *cluster.Node, pod *cluster.Pod) float64 {
	capacity := n.Capacity(cluster.UsedCPU)
	if capacity <= 0 {
		return math.Inf(1)
	}
	used, _ := measured(n, cluster.UsedCPU)
	before, after := percent*used.Mean/capacity, percent*(used.Mean+peaksPrediction(pod))/capacity
	if after > percent {
		return math.Inf(1)
	}
	return powerSlope(n) * (math.Exp(peaksCurve*after) - math.Exp(peaksCurve*before))
}

// peaksPrediction returns what the plugin expects of a pod in thousandths of a core: its request, else its limit,
// else one core.
func peaksPrediction(pod *cluster.Pod) float64 {
	switch {
	case pod.Requests.MilliCPU > 0:
		return float64(pod.Requests.MilliCPU)
	case pod.Limits.MilliCPU > 0:
		return float64(pod.Limits.MilliCPU)
	}
	return 1000
}

// powerSlope returns the node's K1: with it P(100) - P(0) is the difference between a full and an idle CPU.
func powerSlope(n *cluster.Node) float64 {
	m := cluster.MachinePower(n)
	return (m.Full - m.Idle) / (math.Exp(percent*peaksCurve) - 1)
}
