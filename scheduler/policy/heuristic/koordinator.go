package heuristic

import (
	"math"

	"gnnsched/internal/cluster"
)

// Koordinator's defaults: how much of a pod's request or limit it is estimated to use, what a pod without either
// uses, from which utilization in per cent a node is filtered, and after how many seconds a measurement expires.
const (
	koordinatorCPUFactor    = 0.85
	koordinatorMemoryFactor = 0.70
	koordinatorDefaultCPU   = 250
	koordinatorDefaultBytes = 200 << 20
	koordinatorMaxCPU       = 65
	koordinatorMaxMemory    = 95
	koordinatorExpires      = 180
)

// KoordinatorLoadAware prefers the nodes with the most unused capacity by measured use: the plugin LoadAwareScheduling of
// koordinator-sh/koordinator (pkg/scheduler/plugins/loadaware). A pod is estimated to use
// max(request, limit) · 0.85 of CPU and · 0.70 of memory. The score is the mean over CPU and memory of
// 100·(capacity - used)/capacity, where used is the measured mean with the estimates for this pod and for those that
// the measurement lacks. Nodes above 65 % of CPU or 95 % of memory are filtered.
type KoordinatorLoadAware struct{}

// Name implements policy.Policy.
func (KoordinatorLoadAware) Name() string { return "koordinator-load-aware" }

// Score implements policy.Policy.
func (KoordinatorLoadAware) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	usageScore(koordinatorScore).all(s, pod, candidates, scores)
	return nil
}

func koordinatorScore(n *cluster.Node, pod *cluster.Pod, now float64) float64 {
	if n.Usage != nil && now-n.Usage.At > koordinatorExpires {
		expired := *n
		expired.Usage, n = nil, &expired
	}
	sum, penalty := 0.0, 0.0
	for _, r := range [...]struct {
		d     cluster.Dimension
		limit float64
	}{{cluster.UsedCPU, koordinatorMaxCPU}, {cluster.UsedMemory, koordinatorMaxMemory}} {
		capacity := n.Capacity(r.d)
		if capacity <= 0 {
			continue
		}
		s, known := measured(n, r.d)
		if known && math.Round(percent*s.Mean/capacity) > r.limit {
			penalty = filtered
		}
		used := s.Mean + koordinatorEstimate(r.d, pod.Requests, pod.Limits)
		if known {
			unseen(n, func(p *cluster.RecentPod) { used += koordinatorEstimate(r.d, p.Requests, p.Limits) })
		}
		if used <= capacity {
			sum += math.Floor(maxScore * (capacity - used) / capacity)
		}
	}
	return math.Floor(sum/2) - penalty
}

// koordinatorEstimate returns what a pod is estimated to use of CPU or of memory.
func koordinatorEstimate(d cluster.Dimension, requests, limits cluster.Resources) float64 {
	amount, factor, otherwise := max(requests.MilliCPU, limits.MilliCPU), koordinatorCPUFactor, koordinatorDefaultCPU
	if d == cluster.UsedMemory {
		amount, factor, otherwise = max(requests.Memory, limits.Memory), koordinatorMemoryFactor, koordinatorDefaultBytes
	}
	if amount == 0 {
		return float64(otherwise)
	}
	return math.Round(float64(amount) * factor)
}
