package heuristic

import (
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy/cache"
)

// nodeScore computes the score of placing a pod that requests r on n. It depends on nothing else,
// and not on the memory that the pod requests.
type nodeScore func(n *cluster.Node, r cluster.Resources) int64

// cachedScores keeps the scores of a nodeScore from one decision to the next.
type cachedScores struct{ cache cache.Cache[float32] }

// score writes the scores of the candidates, and computes those that are not kept with compute.
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
