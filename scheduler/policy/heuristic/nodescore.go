package heuristic

import (
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
)

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
