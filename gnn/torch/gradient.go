//go:build torch

package torch

import (
	"fmt"
	"math"
	"strings"

	"github.com/sugarme/gotch/libtch"
)

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
