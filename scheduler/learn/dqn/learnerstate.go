//go:build torch

package dqn

import "gnnsched/gnn/torch"

// learnerState is everything that a learner continues from.
type learnerState struct {
	weights []torch.Array // of the network that learns
	rest    optimiserState
}

// optimiserState is the part of a learner's state that a checkpoint of its network does not hold.
type optimiserState struct {
	target  []torch.Array // weights of the target network
	moments []torch.Moments
	updates int
}

// export returns the learner's state.
func (d *learner) export() (s learnerState, err error) {
	if s.weights, err = d.net.Export(); err != nil {
		return s, err
	}
	s.rest, err = d.exportOptimiser()
	return s, err
}

func (d *learner) exportOptimiser() (s optimiserState, err error) {
	s.moments, s.updates = d.adam.Export(), d.updates
	s.target, err = d.target.Export()
	return s, err
}

// restore brings the learner to a state.
func (d *learner) restore(s learnerState) error {
	if err := d.net.Import(s.weights); err != nil {
		return err
	}
	return d.restoreOptimiser(s.rest)
}

func (d *learner) restoreOptimiser(s optimiserState) error {
	if err := d.target.Import(s.target); err != nil {
		return err
	}
	if err := d.adam.Import(s.moments); err != nil {
		return err
	}
	d.updates = s.updates
	return nil
}
