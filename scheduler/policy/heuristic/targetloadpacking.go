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
