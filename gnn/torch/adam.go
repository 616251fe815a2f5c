//go:build torch

package torch

import (
	"fmt"
	"math"
	"slices"
)

// adamConfig sets the optimiser.
type adamConfig struct {
	LearningRate float64 // size of a step; positive
	beta1        float64 // decay of the mean gradient, 0 up to 1
	beta2        float64 // decay of the mean squared gradient, 0 up to 1
}

// Validate reports the first value out of range.
func (c adamConfig) Validate() error {
	switch {
	case !(c.LearningRate > 0):
		return fmt.Errorf("torch: the learning rate is %v, want more than 0", c.LearningRate)
	case !(c.beta1 >= 0 && c.beta1 < 1):
		return fmt.Errorf("torch: Adam's beta1 is %v, want 0 up to 1", c.beta1)
	case !(c.beta2 >= 0 && c.beta2 < 1):
		return fmt.Errorf("torch: Adam's beta2 is %v, want 0 up to 1", c.beta2)
	}
	return nil
}

// adam moves a set of parameters along their gradients (Kingma and Ba, 2015). It is written in Go
// because gotch cannot read the moments of libtorch's own Adam, and a run that continues after a
// restart needs them; see Export and Import.
type adam struct {
	config adamConfig
	p      *Parameters
	of     []moments // of each parameter
}

// moments are the running means of one parameter's gradients and of their squares.
type moments struct {
	steps  int
	mean   []float32 // of the gradient
	square []float32 // of the squared gradient
}

// adamEpsilon keeps a step finite if the gradient is zero.
const adamEpsilon = 1e-8

// newAdam returns an optimiser for the parameters registered so far, which outlive it.
func newAdam(p *Parameters, config adamConfig) (*adam, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if p.err != nil {
		return nil, p.err
	}
	a := &adam{config: config, p: p}
	for _, t := range p.tensors {
		n := size(t.Shape())
		a.of = append(a.of, moments{mean: make([]float32, n), square: make([]float32, n)})
	}
	return a, nil
}

// Step changes every parameter that has a gradient.
func (a *adam) Step() error {
	if len(a.of) != len(a.p.tensors) {
		return fmt.Errorf("torch: a step of an optimiser of %d parameters on %d", len(a.of), len(a.p.tensors))
	}
	var s Scope
	defer s.Drop()
	changed := slices.Clone(a.p.tensors)
	for i, t := range a.p.tensors {
		g := s.gradient(t)
		if g == nil {
			continue
		}
		gradient, weights := s.Float32s(g), s.Float32s(t)
		if s.Err() != nil {
			return s.Err()
		}
		a.step(i, weights, gradient)
		changed[i] = s.Float32(weights, t.Shape()...)
	}
	return a.p.overwrite(&s, func(i int) *Tensor { return changed[i] })
}

// step moves the weights of parameter i.
func (a *adam) step(i int, weights, gradient []float32) {
	m := &a.of[i]
	m.steps++
	rate := a.config.LearningRate
	b1, b2 := float32(a.config.beta1), float32(a.config.beta2)
	by := float32(rate / (1 - math.Pow(a.config.beta1, float64(m.steps))))
	root := float32(1 / math.Sqrt(1-math.Pow(a.config.beta2, float64(m.steps))))
	for j, g := range gradient {
		m.mean[j] = b1*m.mean[j] + (1-b1)*g
		m.square[j] = b2*m.square[j] + (1-b2)*g*g
		weights[j] -= by * m.mean[j] / (root*float32(math.Sqrt(float64(m.square[j]))) + adamEpsilon)
	}
}

// setLearningRate changes the size of the steps from the next one on; rate is positive.
func (a *adam) setLearningRate(rate float64) error {
	if !(rate > 0) {
		return fmt.Errorf("torch: the learning rate is %v, want more than 0", rate)
	}
	a.config.LearningRate = rate
	return nil
}

// Moments are Adam's running means for one parameter, in a form that can be stored.
type Moments struct {
	Name         string
	Steps        int
	Mean, Square []float32
}

// Export copies the moments out, in the order of the parameters.
func (a *adam) Export() []Moments {
	out := make([]Moments, len(a.of))
	for i, m := range a.of {
		out[i] = Moments{a.p.names[i], m.steps, slices.Clone(m.mean), slices.Clone(m.square)}
	}
	return out
}

// Import continues from the moments that Export returned for a network of the same architecture.
func (a *adam) Import(ms []Moments) error {
	if len(ms) != len(a.of) {
		return fmt.Errorf("torch: import moments of %d parameters into %d", len(ms), len(a.of))
	}
	for i, m := range ms {
		if n := len(a.of[i].mean); m.Name != a.p.names[i] || len(m.Mean) != n || len(m.Square) != n {
			return fmt.Errorf("torch: import moments of %q (%d numbers) for %q (%d)", m.Name, len(m.Mean), a.p.names[i], n)
		}
	}
	for i, m := range ms {
		a.of[i] = moments{m.Steps, slices.Clone(m.Mean), slices.Clone(m.Square)}
	}
	return nil
}
