package heuristic

import (
	"math"

	"gnnsched/internal/cluster"
)

var requestedToCapacityRatio = Heuristic{
	Name:  capacityRatio{}.Name(),
	About: "kube-scheduler's shape function, from 0 at an empty node to 10 at a full one",
	New:   fixed(capacityRatio{binPacking}), RandomTies: true,
}

// maxShapeScore is the highest score in a shape, as in kube-scheduler's configuration. A node with
// it scores maxNodeScore.
const maxShapeScore = 10

// binPacking is the shape for packing in kube-scheduler's documentation: the fuller the better.
var binPacking = []shapePoint{{0, 0}, {100, maxShapeScore}}

// shapePoint is a point of a shape: the score of a utilization. A shape has at least one point, in
// ascending order of utilization.
type shapePoint struct {
	utilization int64 // requested / allocatable in percent, 0 to 100
	score       int64 // 0 to 10
}

// capacityRatio is kube-scheduler's NodeResourcesFit with the strategy RequestedToCapacityRatio
// over CPU and memory with weight one, as in Kubernetes 1.36. The score is a function of a node's
// utilization after placement, linear between the points of a shape. The scores are integers as in
// kube-scheduler, so ties are common.
type capacityRatio struct{ shape []shapePoint }

// Name implements policy.Policy.
func (capacityRatio) Name() string { return "requested-to-capacity-ratio" }

// Score implements policy.Policy.
func (r capacityRatio) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	for i, v := range candidates {
		scores[i] = float32(r.mean(s.Nodes[v], pod.Requests))
	}
	return nil
}

// mean returns the rounded mean of the shape's scores over the resources that the node offers. Like
// kube-scheduler it leaves out resources that score 0.
func (r capacityRatio) mean(n *cluster.Node, request cluster.Resources) int64 {
	used := usedWith(n, request)
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

// at returns the shape's score at a utilization in percent, scaled to maxNodeScore. Like
// kube-scheduler it computes in integers, rounded towards zero.
func (r capacityRatio) at(utilization int64) int64 {
	const scale = maxNodeScore / maxShapeScore
	for i, p := range r.shape {
		if utilization > p.utilization {
			continue
		}
		if i == 0 {
			return p.score * scale
		}
		from := r.shape[i-1]
		return from.score*scale + (p.score-from.score)*scale*(utilization-from.utilization)/(p.utilization-from.utilization)
	}
	return r.shape[len(r.shape)-1].score * scale
}
