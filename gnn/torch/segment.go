//go:build torch

package torch

import (
	"fmt"
	"math"
)

// SegmentLogSoftmax returns the logarithm of the softmax over each segment of x [n, 1]: row i belongs
// to segment[i], in [0, segments). A policy chooses with it among candidates whose number differs
// from graph to graph. Scores are first shifted by the highest of their segment, so that no
// exponential overflows.
func (s *Scope) SegmentLogSoftmax(x *Tensor, segment []int64, segments int) *Tensor {
	values := s.Float32s(x)
	if s.err != nil {
		return nil
	}
	if len(values) != len(segment) || len(x.Shape()) != 2 {
		s.fail(fmt.Errorf("torch: segment log softmax: a tensor of shape %v for %d rows, want [%d, 1]", x.Shape(), len(segment), len(segment)))
		return nil
	}
	n := len(values)
	of := s.Int64(segment, n)
	shifted := s.Sub(x, s.Float32(highest(values, segment, segments), n, 1))
	return s.Sub(shifted, s.Rows(s.Log(s.segmentSum(s.Exp(shifted), of, segments)), of))
}

// SegmentCentre subtracts from each row of x [n, 1] the mean of its segment: row i belongs to segment[i], in
// [0, segments).
func (s *Scope) SegmentCentre(x *Tensor, segment []int64, segments int) *Tensor {
	of := s.Int64(segment, len(segment))
	return s.Sub(x, s.Rows(segmentMean(s, x, of, segment, segments), of))
}

// highest returns, for every value, the highest value of its segment.
func highest(values []float32, segment []int64, segments int) []float32 {
	top := make([]float32, segments)
	for i := range top {
		top[i] = float32(math.Inf(-1))
	}
	for i, v := range values {
		top[segment[i]] = max(top[segment[i]], v)
	}
	out := make([]float32, len(values))
	for i, g := range segment {
		out[i] = top[g]
	}
	return out
}
