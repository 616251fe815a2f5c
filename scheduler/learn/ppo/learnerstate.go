//go:build torch

package ppo

import "gnnsched/gnn/torch"

// learnerState is everything that a learner continues from.
type learnerState struct {
	weights []torch.Array
	moments []torch.Moments
}

// export returns the learner's state.
func (p *learner) export() (s learnerState, err error) {
	s.moments = p.adam.Export()
	s.weights, err = p.net.Export()
	return s, err
}

// restore brings the learner to a state.
func (p *learner) restore(s learnerState) error {
	if err := p.net.Import(s.weights); err != nil {
		return err
	}
	return p.adam.Import(s.moments)
}
