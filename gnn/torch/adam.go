//go:build torch

package torch

import (
	"fmt"

	"github.com/sugarme/gotch/libtch"
)

// AdamConfig sets the optimiser.
type AdamConfig struct {
	LearningRate float64 // size of a step; positive
	Beta1        float64 // memory of the mean gradient, 0 up to 1
	Beta2        float64 // memory of the mean squared gradient, 0 up to 1
	WeightDecay  float64 // pull of the weights towards zero, decoupled as in AdamW; 0 for none
}

// DefaultAdam is Adam as published, without weight decay.
func DefaultAdam() AdamConfig { return AdamConfig{LearningRate: 1e-3, Beta1: 0.9, Beta2: 0.999} }

// Validate reports the first value out of range.
func (c AdamConfig) Validate() error {
	switch {
	case !(c.LearningRate > 0):
		return fmt.Errorf("torch: the learning rate is %v, want more than 0", c.LearningRate)
	case !(c.Beta1 >= 0 && c.Beta1 < 1):
		return fmt.Errorf("torch: Adam's beta1 is %v, want 0 up to 1", c.Beta1)
	case !(c.Beta2 >= 0 && c.Beta2 < 1):
		return fmt.Errorf("torch: Adam's beta2 is %v, want 0 up to 1", c.Beta2)
	case !(c.WeightDecay >= 0):
		return fmt.Errorf("torch: the weight decay is %v, want 0 or more", c.WeightDecay)
	}
	return nil
}

// Adam changes a set of parameters along their gradients (Kingma and Ba, 2015).
type Adam struct {
	c libtch.Coptimizer
}

// NewAdam returns an optimiser for the parameters registered so far.
func NewAdam(p *Parameters, config AdamConfig) (*Adam, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if p.err != nil {
		return nil, p.err
	}
	a := &Adam{}
	err := call("adam", func() {
		a.c = libtch.AtoAdamW(config.LearningRate, config.Beta1, config.Beta2, config.WeightDecay)
	})
	if err != nil {
		return nil, err
	}
	for i, t := range p.tensors {
		if err := call("adam: add "+p.names[i], func() { libtch.AtoAddParameter(a.c, t.c, 0) }); err != nil {
			a.Drop()
			return nil, err
		}
	}
	return a, nil
}

// Step changes every parameter that has a gradient.
func (a *Adam) Step() error {
	if a.c == nil {
		return fmt.Errorf("torch: a step of a dropped optimiser")
	}
	return call("adam: step", func() { libtch.AtoStep(a.c) })
}

// SetLearningRate changes the size of the steps from the next one on; rate is positive.
func (a *Adam) SetLearningRate(rate float64) error {
	if a.c == nil {
		return fmt.Errorf("torch: the learning rate of a dropped optimiser")
	}
	if !(rate > 0) {
		return fmt.Errorf("torch: the learning rate is %v, want more than 0", rate)
	}
	return call("adam: learning rate", func() { libtch.AtoSetLearningRate(a.c, rate) })
}

// Drop frees the optimiser and its moments. A second call does nothing.
func (a *Adam) Drop() {
	if a.c != nil {
		libtch.AtoFree(a.c)
		a.c = nil
	}
}
