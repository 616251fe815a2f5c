package heuristic

import (
	"math"

	"gnnsched/internal/cluster"
)

// maxShapeScore is the most that a point of a shape may score, as in kube-scheduler's
// configuration; a node with that score has maxNodeScore.
const maxShapeScore = 10

var requestedToCapacityRatio = Heuristic{
	Name: "requested-to-capacity-ratio", About: "kube-scheduler's shape function, from 0 at an empty node to 10 at a full one",
	New: fixed(&capacityRatio{binPacking}), RandomTies: true,
}

// binPacking is the shape for packing in kube-scheduler's documentation: the fuller the better.
var binPacking = []shapePoint{{0, 0}, {100, maxShapeScore}}

// shapePoint is a point of a shape: the score of a utilization. A shape has one or more points in
// ascending order of their utilization.
type shapePoint struct {
	Utilization int64 // percent of what the node offers that is requested, 0 to 100
	Score       int64 // 0 to 10
}

// capacityRatio is kube-scheduler's NodeResourcesFit with the strategy
// RequestedToCapacityRatio over CPU and memory with weight one, as in Kubernetes 1.36: a function of a node's
// utilization after placement, linear between the points of a shape. The scores are integers
// as there, so ties are common.
type capacityRatio struct{ shape []shapePoint }

// Name implements policy.Policy.
func (*capacityRatio) Name() string { return "requested-to-capacity-ratio" }

// Score implements policy.Policy.
func (r *capacityRatio) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	for i, v := range candidates {
		scores[i] = float32(r.of(s.Nodes[v], pod.Requests))
	}
	return nil
}

// of is the rounded mean over the resources that the node offers of the shape's value there;
// as upstream has it, a resource with the value 0 is left out of the mean.
func (r *capacityRatio) of(n *cluster.Node, request cluster.Resources) int64 {
	used := assumed(n, request)
	var sum, count int64
	for _, x := range [...][2]int64{{used.MilliCPU, n.Allocatable.MilliCPU}, {used.Memory, n.Allocatable.Memory}} {
		if x[1] == 0 {
			continue
		}
		if v := r.at(min(x[0], x[1]) * 100 / x[1]); v > 0 {
			sum, count = sum+v, count+1
		}
	}
	if count == 0 {
		return 0
	}
	return int64(math.Round(float64(sum) / float64(count)))
}

// at is the shape's value at a utilization in percent, in 0 to maxNodeScore; integer
// arithmetic that rounds towards zero, as upstream's.
func (r *capacityRatio) at(utilization int64) int64 {
	const scale = maxNodeScore / maxShapeScore
	for i, p := range r.shape {
		if utilization > p.Utilization {
			continue
		}
		if i == 0 {
			return p.Score * scale
		}
		from := r.shape[i-1]
		return from.Score*scale + (p.Score-from.Score)*scale*(utilization-from.Utilization)/(p.Utilization-from.Utilization)
	}
	return r.shape[len(r.shape)-1].Score * scale
}
