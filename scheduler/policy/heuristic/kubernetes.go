package heuristic

import (
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/policy/stock"
)

var kubernetes = Heuristic{
	Name:  Kubernetes{}.Name(),
	About: "kube-scheduler's default: LeastAllocated and BalancedAllocation, and in the simulator the spreading of replicas",
	New:   fixed(Kubernetes{}), RandomTies: true,
}

var mostAllocated = Heuristic{
	Name:  "most-allocated",
	About: "kube-scheduler's packing: the fullest node by share",
	New:   fixed(fitAlone("most-allocated", stock.MostAllocated)), RandomTies: true,
}

// maxNodeScore is the highest score of kube-scheduler's plugins.
const maxNodeScore = 100

// Kubernetes is kube-scheduler's default scoring of requests (stock.Default). The simulator adds the scores
// of preferences.
type Kubernetes struct{}

var byDefault = mustStock("kube-scheduler", stock.Default())

// Name implements policy.Policy.
func (Kubernetes) Name() string { return byDefault.Name() }

// PreferenceWeights implements policy.Upstream.
func (Kubernetes) PreferenceWeights() preference.Weights { return byDefault.PreferenceWeights() }

// Score implements policy.Policy.
func (Kubernetes) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	return byDefault.Score(s, pod, candidates, scores)
}

// fitAlone is NodeResourcesFit without any other plugin. It hides that a stock.Policy is a policy.Upstream:
// preferences come first for it.
func fitAlone(name string, s stock.Strategy, shape ...stock.Point) policy.Policy {
	p := stock.Default()
	p.Strategy, p.Shape, p.Weights = s, shape, stock.Weights{Fit: 1}
	return struct{ policy.Policy }{mustStock(name, p)}
}

// mustStock returns the policy of a profile in this file.
func mustStock(name string, p stock.Profile) *stock.Policy {
	out, err := stock.New(name, p)
	if err != nil {
		panic(err) // a wrong constant
	}
	return out
}

var requestedToCapacityRatio = Heuristic{
	Name:  "requested-to-capacity-ratio",
	About: "kube-scheduler's shape function, from 0 at an empty node to 10 at a full one",
	New:   fixed(fitAlone("requested-to-capacity-ratio", stock.RequestedToCapacityRatio, binPacking...)), RandomTies: true,
}

// binPacking is the shape for packing in kube-scheduler's documentation: the fuller the better.
var binPacking = []stock.Point{{Utilization: 0, Score: 0}, {Utilization: 100, Score: stock.MaxShapeScore}}

// nodeScore computes the score of placing a pod that requests r on n. It depends on nothing but n
// and r, and not on r.Memory.
type nodeScore func(n *cluster.Node, r cluster.Resources) int64

// cachedScores keeps the scores of a nodeScore from one decision to the next.
type cachedScores struct{ cache cluster.Cache[float32] }

// score writes the scores of the candidates. It calls compute for the nodes that have changed.
func (c *cachedScores) score(s *cluster.Snapshot, r cluster.Resources, candidates []int32, scores []float32, compute nodeScore) {
	r.Memory = 0
	column := c.cache.Column(r, len(s.Nodes))
	for i, v := range candidates {
		n, e := s.Nodes[v], &column[v]
		if !e.Valid(n) {
			e.Set(n, float32(compute(n, r)))
		}
		scores[i] = e.Value
	}
}

// nodePolicy is a policy with a nodeScore. The policies that FGD was compared with in its
// publication (Weng et al., USENIX ATC 2023) are of this type. A share of a device goes to the
// device with the least room that fits.
type nodePolicy struct {
	name    string
	compute nodeScore
	cached  cachedScores
}

// Name implements policy.Policy.
func (p *nodePolicy) Name() string { return p.name }

// Score implements policy.Policy.
func (p *nodePolicy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	p.cached.score(s, pod.Requests, candidates, scores, p.compute)
	return nil
}

// fromNodeScore returns a constructor of a nodePolicy.
func fromNodeScore(name string, compute nodeScore) func(policy.Setting) policy.Policy {
	return func(policy.Setting) policy.Policy { return &nodePolicy{name: name, compute: compute} }
}

// The largest machine of the published comparison, in the units of cluster.Resources. Its policies
// measure resources as fractions of it.
const (
	largestMilliCPU = 128_000
	largestGPUMilli = 8 * cluster.DeviceMilli
)

// left returns what a node has left of CPU and of GPU, in thousandths.
func left(n *cluster.Node) (cpu, gpu float64) {
	return float64(n.Allocatable.MilliCPU - n.Requested.MilliCPU), float64(n.IdleGPUMilli())
}

var bestFit = Heuristic{
	Name:  leastLeft{}.Name(),
	About: "the node with the least left, by amount",
	New:   fixed(leastLeft{}), RandomTies: true,
}

// leastLeft prefers the node with the least CPU and memory left after placement, each divided by
// the largest amount that any candidate offers. Unlike most-allocated it compares amounts, not
// fractions: of two equally full nodes the smaller one wins.
type leastLeft struct{}

// Name implements policy.Policy.
func (leastLeft) Name() string { return "best-fit" }

// Score implements policy.Policy.
func (leastLeft) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	var most cluster.Resources
	for _, v := range candidates {
		a := s.Nodes[v].Allocatable
		most.MilliCPU, most.Memory = max(most.MilliCPU, a.MilliCPU), max(most.Memory, a.Memory)
	}
	for i, v := range candidates {
		left := s.Nodes[v].Free().Minus(pod.Requests)
		scores[i] = -float32(cluster.Fraction(left.MilliCPU, most.MilliCPU) + cluster.Fraction(left.Memory, most.Memory))
	}
	return nil
}

var dotProduct = Heuristic{
	Name:  alignment{}.Name(),
	About: "Tetris: the node whose free resources are most aligned with the pod's requests",
	New:   fixed(alignment{}), RandomTies: true,
}

// alignment is the alignment score of Tetris (Grandl et al., Multi-Resource Packing for Cluster
// Schedulers, SIGCOMM 2014): the dot product of the pod's requests and the node's free resources
// before placement, both as fractions of what the node offers:
//
//	Σ over CPU, memory and GPU of (request / allocatable) · (free / allocatable)
//
// A pod that is large in one resource goes where much of that resource is left. An overcommitted
// resource counts as having nothing free.
type alignment struct{}

// Name implements policy.Policy.
func (alignment) Name() string { return "dot-product" }

// Score implements policy.Policy.
func (alignment) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	r := pod.Requests
	for i, v := range candidates {
		has, free := s.Nodes[v].Allocatable, s.Nodes[v].Free()
		scores[i] = float32(aligned(r.MilliCPU, free.MilliCPU, has.MilliCPU) +
			aligned(r.Memory, free.Memory, has.Memory) + aligned(r.GPU, free.GPU, has.GPU))
	}
	return nil
}

// aligned returns one resource's term of the dot product.
func aligned(request, free, allocatable int64) float64 {
	return cluster.Fraction(request, allocatable) * cluster.Fraction(max(free, 0), allocatable)
}

var borg = Heuristic{
	Name:  evolved{}.Name(),
	About: "Borg's score of 2025: a node with much CPU and memory left, in the ratio that the pod requests",
	New:   fixed(evolved{}), RandomTies: true,
}

// evolved is the score that a search over programs found for Borg (Novikov et al., AlphaEvolve, 2025): with c and m what the pod requests
// of CPU and memory as fractions of what is free,
//
//	-(c + m + m/c + c/m)
//
// A pod without requests counts with upstream's (cluster.Resources.Counted).
type evolved struct{}

// Name implements policy.Policy.
func (evolved) Name() string { return "borg" }

// Score implements policy.Policy.
func (evolved) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	r := pod.Requests.Counted()
	for i, v := range candidates {
		free := s.Nodes[v].Free()
		c, m := cluster.Fraction(r.MilliCPU, max(free.MilliCPU, r.MilliCPU)), cluster.Fraction(r.Memory, max(free.Memory, r.Memory))
		scores[i] = -float32(c + m + m/c + c/m)
	}
	return nil
}
