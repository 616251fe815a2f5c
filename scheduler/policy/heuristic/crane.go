package heuristic

import (
	"math"

	"gnnsched/internal/cluster"
)

// craneTerm is one of the figures of a resource that Crane's default policy weighs, and above which share
// of the capacity a node is filtered.
type craneTerm struct {
	weight, most float64
	of           func(*cluster.Statistics) float64
}

var craneTerms = [...]craneTerm{
	{0.2, 0.65, func(s *cluster.Statistics) float64 { return s.Mean }},
	{0.3, 0.75, func(s *cluster.Statistics) float64 { return s.HourMax }},
	{0.5, math.Inf(1), func(s *cluster.Statistics) float64 { return s.DayMax }},
}

// craneHot are the windows in seconds in which Crane counts bindings, and so many raise the hot value by 1.
var craneHot = [...]struct{ window, count float64 }{{300, 5}, {60, 2}}

// CraneDynamic prefers the nodes that used least lately and of which few were chosen just now: the plugin Dynamic of
// gocrane/crane-scheduler (pkg/plugins/dynamic) with its default policy. The score is 100·Σ w·(1 - usage)/Σ w over CPU
// and memory, with weight 0.2 for the mean of five minutes, 0.3 for the maximum of an hour and 0.5 for that of a
// day, minus 10 times the hot value: one for each five pods bound within five minutes, and for each two within one.
// Nodes above 65 % in the mean or 75 % in the hour's maximum are filtered.
type CraneDynamic struct{}

// Name implements policy.Policy.
func (CraneDynamic) Name() string { return "crane-dynamic" }

// Score implements policy.Policy.
func (CraneDynamic) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	usageScore(craneScore).all(s, pod, candidates, scores)
	return nil
}

func craneScore(n *cluster.Node, _ *cluster.Pod, now float64) float64 {
	var sum, weights, penalty float64
	for _, d := range [...]cluster.Dimension{cluster.UsedCPU, cluster.UsedMemory} {
		capacity := n.Capacity(d)
		if capacity <= 0 {
			continue
		}
		s, known := measured(n, d)
		for _, t := range craneTerms {
			share := t.of(&s) / capacity
			sum += t.weight * (1 - share)
			weights += t.weight
			if known && share > t.most {
				penalty = filtered
			}
		}
	}
	if weights == 0 {
		return 0
	}
	score := math.Trunc(maxScore*sum/weights) - 10*hotValue(n, now)
	return max(min(score, maxScore), 0) - penalty
}

// hotValue returns how often the node was chosen lately.
func hotValue(n *cluster.Node, now float64) (value float64) {
	if n.Usage == nil {
		return 0
	}
	for _, h := range craneHot {
		count := 0.0
		for i := range n.Usage.Recent {
			if now-n.Usage.Recent[i].At <= h.window {
				count++
			}
		}
		value += math.Floor(count / h.count)
	}
	return value
}
