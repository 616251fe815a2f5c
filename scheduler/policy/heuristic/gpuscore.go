package heuristic

import "gnnsched/internal/cluster"

// The largest machine in the units of cluster.Resources. The published GPU policies measure
// resources as fractions of it.
const (
	largestMilliCPU = 128_000
	largestGPUMilli = 8 * cluster.DeviceMilli
)

// gpuScore is one of the policies that FGD was compared with in its publication (Weng et al.,
// USENIX ATC 2023). The score of a node is an integer that depends only on that node and the pod's
// requests. A share of a device goes to the device with the least room that fits.
type gpuScore struct {
	name    string
	compute nodeScore
	cached  cachedScores
}

// Name implements policy.Policy.
func (g *gpuScore) Name() string { return g.name }

// Score implements policy.Policy.
func (g *gpuScore) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	g.cached.score(s, pod.Requests, candidates, scores, g.compute)
	return nil
}

// left is what a node has left of CPU and of GPU, in thousandths.
func left(n *cluster.Node) (cpu, gpu float64) {
	return float64(n.Allocatable.MilliCPU - n.Requested.MilliCPU), float64(n.IdleGPUMilli())
}
