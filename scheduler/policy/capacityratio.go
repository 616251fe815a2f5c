package policy

import (
	"errors"
	"fmt"
	"math"

	"gnnsched/internal/cluster"
)

// maxShapeScore is the most that a point of a shape may score, as in kube-scheduler's
// configuration; a node with that score has maxNodeScore.
const maxShapeScore = 10

// ShapePoint says how good a utilization is.
type ShapePoint struct {
	Utilization int64 // percent of what the node offers that is requested, 0 to 100
	Score       int64 // 0 to 10
}

// BinPacking is the shape that kube-scheduler's documentation gives for packing: the fuller
// the better.
func BinPacking() []ShapePoint { return []ShapePoint{{0, 0}, {100, maxShapeScore}} }

// RequestedToCapacityRatio is kube-scheduler's NodeResourcesFit with the strategy of that
// name over CPU and memory with weight one, as in Kubernetes 1.36: a function of a node's
// utilization after placement, linear between the points of a shape. The scores are integers
// as there, so ties are common.
type RequestedToCapacityRatio struct{ shape []ShapePoint }

// NewRequestedToCapacityRatio returns the policy of a shape: one or more points, their
// utilization ascending.
func NewRequestedToCapacityRatio(shape []ShapePoint) (*RequestedToCapacityRatio, error) {
	if len(shape) == 0 {
		return nil, errors.New("requested-to-capacity-ratio: the shape has no point; give at least one")
	}
	for i, p := range shape {
		switch {
		case p.Utilization < 0 || p.Utilization > maxNodeScore:
			return nil, fmt.Errorf("requested-to-capacity-ratio: point %d: utilization %d is outside 0 to 100", i, p.Utilization)
		case p.Score < 0 || p.Score > maxShapeScore:
			return nil, fmt.Errorf("requested-to-capacity-ratio: point %d: score %d is outside 0 to %d", i, p.Score, maxShapeScore)
		case i > 0 && p.Utilization <= shape[i-1].Utilization:
			return nil, fmt.Errorf("requested-to-capacity-ratio: point %d: utilization %d is not above the one before, %d", i, p.Utilization, shape[i-1].Utilization)
		}
	}
	return &RequestedToCapacityRatio{append([]ShapePoint(nil), shape...)}, nil
}

// Name implements Policy.
func (*RequestedToCapacityRatio) Name() string { return "requested-to-capacity-ratio" }

// Score implements Policy.
func (r *RequestedToCapacityRatio) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	for i, v := range candidates {
		scores[i] = float32(r.of(s.Nodes[v], pod.Requests))
	}
	return nil
}

// of is the rounded mean over the resources that the node offers of the shape's value there;
// as upstream has it, a resource with the value 0 is left out of the mean.
func (r *RequestedToCapacityRatio) of(n *cluster.Node, request cluster.Resources) int64 {
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
func (r *RequestedToCapacityRatio) at(utilization int64) int64 {
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
