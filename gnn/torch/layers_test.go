//go:build torch

package torch

import (
	"math"
	"math/rand/v2"
)

// uniformParameter registers a parameter drawn uniformly from (-bound, bound).
func uniformParameter(p *Parameters, rng *rand.Rand, name string, bound float64, shape ...int) *Tensor {
	return p.register(name, shape, func() float32 { return float32((2*rng.Float64() - 1) * bound) })
}

// gradientsOf returns the gradients in the order of the parameters. A parameter that no loss has
// reached yet has zeros.
func gradientsOf(p *Parameters) ([]Array, error) {
	var s Scope
	defer s.Drop()
	out := make([]Array, len(p.tensors))
	for i, t := range p.tensors {
		out[i] = Array{Name: p.names[i], Shape: t.Shape(), Data: make([]float32, size(t.Shape()))}
		if g := s.gradient(t); g != nil {
			out[i].Data = s.Float32s(g)
		}
	}
	return out, s.Err()
}

// countOf returns how many numbers can be trained.
func countOf(p *Parameters) (n int) {
	for _, t := range p.tensors {
		n += size(t.Shape())
	}
	return n
}

// usualAdam is Adam as published.
func usualAdam() adamConfig { return adamConfig{LearningRate: 1e-3, beta1: 0.9, beta2: 0.999} }

// Linear is y = x·Wᵀ + b with x [n, in], W [out, in] and b [out]. Its parameters are called
// name.weight and name.bias.
type Linear struct {
	Weight, Bias *Tensor
}

// NewLinear registers a layer. Weights and biases start uniform in ±1/√in. For inputs of variance 1
// the outputs then have a variance of about a third, for any width.
func NewLinear(p *Parameters, rng *rand.Rand, name string, in, out int) Linear {
	bound := 1 / math.Sqrt(float64(in))
	return Linear{
		Weight: uniformParameter(p, rng, name+".weight", bound, out, in),
		Bias:   uniformParameter(p, rng, name+".bias", bound, out),
	}
}

// Forward applies the layer to every row of x.
func (l Linear) Forward(s *Scope, x *Tensor) *Tensor { return s.Linear(x, l.Weight, l.Bias) }
