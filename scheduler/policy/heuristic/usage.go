package heuristic

import (
	"math"

	"gnnsched/internal/cluster"
)

// The published score plugins that look at measured usage. Without it they score requests.
var (
	targetLoadPacking = Heuristic{
		Name:  TargetLoadPacking{}.Name(),
		About: "Trimaran: up to 40 % of measured CPU the fullest node, above it the emptiest",
		New:   fixed(TargetLoadPacking{}), Usage: true, RandomTies: true,
	}
	loadVariation = Heuristic{
		Name:  LoadVariationRiskBalancing{}.Name(),
		About: "Trimaran: the least mean plus deviation of measured CPU and memory",
		New:   fixed(LoadVariationRiskBalancing{}), Usage: true, RandomTies: true,
	}
	koordinatorLoadAware = Heuristic{
		Name:  KoordinatorLoadAware{}.Name(),
		About: "Koordinator: the most left of measured CPU and memory",
		New:   fixed(KoordinatorLoadAware{}), Usage: true, RandomTies: true,
	}
	craneDynamic = Heuristic{
		Name:  CraneDynamic{}.Name(),
		About: "Crane: the least measured usage of five minutes, an hour and a day, and few pods of late",
		New:   fixed(CraneDynamic{}), Usage: true, RandomTies: true,
	}
	peaks = Heuristic{
		Name:  Peaks{}.Name(),
		About: "Trimaran: the node whose power rises least, by measured CPU",
		New:   fixed(Peaks{}), Usage: true, RandomTies: true,
	}
)

const (
	maxScore = 100
	percent  = 100

	// filtered is subtracted from the scores of nodes that the original would filter.
	filtered = 1000

	// lag is how long before a measurement, in seconds, a pod may have been bound and still be missing in it.
	lag = 60
)

// measured returns the measured use of a node, without the pods that were bound since, or what is requested
// if the dimension was not measured.
func measured(n *cluster.Node, d cluster.Dimension) (s cluster.Statistics, known bool) {
	if u := n.Usage; u != nil && u.Known[d] {
		return u.Measured[d], true
	}
	return n.Used(d), false
}

// unseen calls each for the pods that were bound since the measurement, or so shortly before that it lacks them.
func unseen(n *cluster.Node, each func(*cluster.RecentPod)) {
	if n.Usage == nil {
		return
	}
	for i := range n.Usage.Recent {
		if p := &n.Usage.Recent[i]; p.At > n.Usage.At-lag {
			each(p)
		}
	}
}

// predictCPU returns Trimaran's prediction of a pod's CPU in thousandths of a core: its limit, else 1.5
// times its request, else one core.
func predictCPU(requests, limits cluster.Resources) float64 {
	switch {
	case limits.MilliCPU > 0:
		return float64(limits.MilliCPU)
	case requests.MilliCPU > 0:
		return math.Round(1.5 * float64(requests.MilliCPU))
	}
	return 1000
}

// cpuUsed returns the CPU that Trimaran expects to be in use before a placement: the measured mean and the
// predictions for the pods that it lacks.
func cpuUsed(n *cluster.Node) float64 {
	s, known := measured(n, cluster.UsedCPU)
	if known {
		unseen(n, func(p *cluster.RecentPod) { s.Mean += predictCPU(p.Requests, p.Limits) })
	}
	return s.Mean
}

// usageScore scores one node for a pod at a time.
type usageScore func(n *cluster.Node, pod *cluster.Pod, now float64) float64

func (f usageScore) all(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) {
	for i, v := range candidates {
		scores[i] = float32(f(s.Nodes[v], pod, s.Now))
	}
}

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
