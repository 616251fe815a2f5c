//go:build torch

package torch

import (
	"fmt"
	"math"
	"strings"

	"github.com/sugarme/gotch/libtch"
)

// Add returns a + b. Like the other operations on two tensors, it repeats b along dimensions of size 1.
func (s *Scope) Add(a, b *Tensor) *Tensor {
	return s.op("add", func(out *libtch.Ctensor) { libtch.AtgAdd(out, a.c, b.c) }, a, b)
}

// Sub returns a − b.
func (s *Scope) Sub(a, b *Tensor) *Tensor {
	return s.op("sub", func(out *libtch.Ctensor) { libtch.AtgSub(out, a.c, b.c) }, a, b)
}

// Mul returns a · b, element by element.
func (s *Scope) Mul(a, b *Tensor) *Tensor {
	return s.op("mul", func(out *libtch.Ctensor) { libtch.AtgMul(out, a.c, b.c) }, a, b)
}

// Scale returns v · x.
func (s *Scope) Scale(x *Tensor, v float64) *Tensor {
	return s.op("scale", func(out *libtch.Ctensor) {
		withScalar(v, func(c libtch.Cscalar) { libtch.AtgMulScalar(out, x.c, c) })
	}, x)
}

// withScalar calls f with a scalar of libtorch's, which it frees afterwards.
func withScalar(v float64, f func(libtch.Cscalar)) {
	c := libtch.AtsFloat(v)
	defer libtch.AtsFree(c)
	f(c)
}

// Exp returns e to the power of x.
func (s *Scope) Exp(x *Tensor) *Tensor {
	return s.op("exp", func(out *libtch.Ctensor) { libtch.AtgExp(out, x.c) }, x)
}

// Log returns the natural logarithm of x.
func (s *Scope) Log(x *Tensor) *Tensor {
	return s.op("log", func(out *libtch.Ctensor) { libtch.AtgLog(out, x.c) }, x)
}

// Square returns x².
func (s *Scope) Square(x *Tensor) *Tensor {
	return s.op("square", func(out *libtch.Ctensor) { libtch.AtgSquare(out, x.c) }, x)
}

// relu returns max(x, 0).
func (s *Scope) relu(x *Tensor) *Tensor {
	return s.op("relu", func(out *libtch.Ctensor) { libtch.AtgRelu(out, x.c) }, x)
}

// Linear returns x·weightᵀ + bias for x [n, in], weight [out, in] and bias [out].
func (s *Scope) Linear(x, weight, bias *Tensor) *Tensor {
	return s.op("linear", func(out *libtch.Ctensor) {
		libtch.AtgLinear(out, x.c, weight.c, bias.c)
	}, x, weight, bias)
}

// project returns x·weightᵀ for x [n, in] and weight [out, in]: Linear without a bias.
func (s *Scope) project(x, weight *Tensor) *Tensor {
	return s.op("project", func(out *libtch.Ctensor) { libtch.AtgLinear(out, x.c, weight.c, nil) }, x, weight)
}

// Rows returns rows of x by their index: out[i] = x[index[i]].
func (s *Scope) Rows(x, index *Tensor) *Tensor {
	return s.op("rows", func(out *libtch.Ctensor) { libtch.AtgIndexSelect(out, x.c, 0, index.c) }, x, index)
}

// segmentSum adds up the rows of x [n, k] by segment: row i goes to row segment[i] of the
// result [segments, k]. Segments without rows are zero.
func (s *Scope) segmentSum(x, segment *Tensor, segments int) *Tensor {
	if !s.ready("segment sum", x, segment) {
		return nil
	}
	shape := x.Shape()
	if len(shape) == 0 {
		s.fail(fmt.Errorf("torch: segment sum of a tensor without rows"))
		return nil
	}
	shape[0] = segments
	zeros := s.zeros(shape...)
	return s.op("segment sum", func(out *libtch.Ctensor) {
		libtch.AtgIndexAdd(out, zeros.c, 0, segment.c, x.c)
	}, zeros, x, segment)
}

// Narrow returns length rows (dim 0) or columns (dim 1) of x from start on.
func (s *Scope) Narrow(x *Tensor, dim, start, length int) *Tensor {
	return s.op("narrow", func(out *libtch.Ctensor) {
		libtch.AtgNarrow(out, x.c, int64(dim), int64(start), int64(length))
	}, x)
}

// Sum returns the sum of all elements.
func (s *Scope) Sum(x *Tensor) *Tensor {
	return s.op("sum", func(out *libtch.Ctensor) { libtch.AtgSum(out, x.c, kindFloat32) }, x)
}

// sumAlong returns the sums along a dimension, which has size 1 in the result.
func (s *Scope) sumAlong(x *Tensor, dim int) *Tensor {
	return s.op("sum along", func(out *libtch.Ctensor) {
		libtch.AtgSumDimIntlist(out, x.c, []int64{int64(dim)}, 1, 1, kindFloat32)
	}, x)
}

// Mean returns the mean of all elements.
func (s *Scope) Mean(x *Tensor) *Tensor {
	return s.op("mean", func(out *libtch.Ctensor) { libtch.AtgMean(out, x.c, kindFloat32) }, x)
}

// Detach returns x without its history: no gradient flows through the result.
func (s *Scope) Detach(x *Tensor) *Tensor {
	return s.op("detach", func(out *libtch.Ctensor) { libtch.AtgDetach(out, x.c) }, x)
}

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

// zeroGrad sets every gradient to zero. Call it before each Backward, which adds to the gradients.
func (p *Parameters) zeroGrad() error {
	var s Scope
	defer s.Drop()
	for _, g := range p.gradients(&s, func(string) bool { return true }) {
		s.op("zero gradient", func(out *libtch.Ctensor) { libtch.AtgZero_(out, g.c) }, g)
	}
	return s.Err()
}

// clipGrad scales the gradients of all parameters together so that their common Euclidean
// norm is at most limit, and returns the norm that they had. A norm that is not finite
// changes nothing and is an error: a step with such gradients would destroy the network.
func (p *Parameters) clipGrad(limit float64) (norm float64, err error) {
	return p.clip(limit, func(string) bool { return true })
}

// clipGradApart is clipGrad with separate norms for the parameters whose names begin with prefix and
// for the others. It returns the norm of the others.
func (p *Parameters) clipGradApart(limit float64, prefix string) (norm float64, err error) {
	if _, err := p.clip(limit, func(name string) bool { return strings.HasPrefix(name, prefix) }); err != nil {
		return 0, err
	}
	return p.clip(limit, func(name string) bool { return !strings.HasPrefix(name, prefix) })
}

// clip is clipGrad for the parameters for which `which` returns true.
func (p *Parameters) clip(limit float64, which func(name string) bool) (norm float64, err error) {
	var s Scope
	defer s.Drop()
	gradients := p.gradients(&s, which)
	sum := 0.0
	for _, g := range gradients {
		n := s.Float(s.op("norm", func(out *libtch.Ctensor) { libtch.AtgNorm(out, g.c) }, g))
		sum += n * n
	}
	norm = math.Sqrt(sum)
	if s.Err() != nil {
		return 0, s.Err()
	}
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return norm, fmt.Errorf("torch: the gradient's norm is %v: the loss diverged; lower the learning rate or check the inputs", norm)
	}
	if norm > limit {
		for _, g := range gradients {
			s.op("clip", func(out *libtch.Ctensor) {
				withScalar(limit/norm, func(c libtch.Cscalar) { libtch.AtgMulScalar_(out, g.c, c) })
			}, g)
		}
	}
	return norm, s.Err()
}

// gradients returns the gradients of the parameters that a loss has reached and for which `which` returns true.
func (p *Parameters) gradients(s *Scope, which func(name string) bool) []*Tensor {
	out := make([]*Tensor, 0, len(p.tensors))
	for i, t := range p.tensors {
		if !which(p.names[i]) {
			continue
		}
		if g := s.gradient(t); g != nil {
			out = append(out, g)
		}
	}
	return out
}

// gradient returns a handle of the tensor's gradient, nil if there is none.
func (s *Scope) gradient(t *Tensor) *Tensor {
	g := s.op("gradient", func(out *libtch.Ctensor) { libtch.AtgGrad(out, t.c) }, t)
	if g == nil || !libtch.AtDefined(g.c) {
		return nil
	}
	return g
}
