//go:build torch

package torch

import "gnnsched/gnn/checkpoint"

// Trainee is a network that learns, its optimiser, and a second network that follows it: the average that
// plays. Not safe for concurrent use.
type Trainee struct {
	Net     *Network
	Slow    *Network // follows Net by Blend; nil for none
	adam    *adam
	Updates int // steps so far

	kept TraineeState
}

// NewTrainee returns a trainee with the weights of c and a learning rate. slow says whether it has a second network.
func NewTrainee(c *checkpoint.Checkpoint, rate float64, slow bool) (*Trainee, error) {
	t := &Trainee{}
	var err error
	if t.Net, err = networkOf(c); err == nil && slow {
		t.Slow, err = networkOf(c)
	}
	if err == nil {
		t.adam, err = newAdam(&t.Net.Parameters, adamConfig{LearningRate: rate, beta1: 0.9, beta2: 0.999})
	}
	if err != nil {
		t.Drop()
		return nil, err
	}
	return t, nil
}

// Drop frees the networks.
func (t *Trainee) Drop() {
	for _, n := range []*Network{t.Net, t.Slow} {
		if n != nil {
			n.Drop()
		}
	}
}

// Checkpoint returns the weights of the network that learns.
func (t *Trainee) Checkpoint() (*checkpoint.Checkpoint, error) { return t.Net.Checkpoint() }

// Descent says how far a step goes.
type Descent struct {
	Rate  float64 // learning rate; 0 keeps the one before
	Limit float64 // of the gradient's norm
	Apart string  // prefix of the parameters whose norm has a limit of its own; empty for none
}

// Step takes a step of the optimiser down the gradient of a loss, and returns the gradient's norm before it was limited.
func (t *Trainee) Step(s *Scope, loss *Tensor, d Descent) (norm float64, err error) {
	if err := t.Net.zeroGrad(); err != nil {
		return 0, err
	}
	s.Backward(loss)
	if s.Err() != nil {
		return 0, s.Err()
	}
	if d.Apart == "" {
		norm, err = t.Net.clipGrad(d.Limit)
	} else {
		norm, err = t.Net.clipGradApart(d.Limit, d.Apart)
	}
	if err == nil && d.Rate > 0 {
		err = t.adam.setLearningRate(d.Rate)
	}
	if err == nil {
		err = t.adam.Step()
	}
	if err == nil {
		t.Updates++
	}
	return norm, err
}

// TraineeState is everything that a trainee continues from. The field names are those of state files.
type TraineeState struct {
	Weights, Slow []Array
	Moments       []Moments
	Updates       int
}

// Export copies the state out.
func (t *Trainee) Export() (s TraineeState, err error) {
	s.Moments, s.Updates = t.adam.Export(), t.Updates
	if s.Weights, err = t.Net.Export(); err == nil && t.Slow != nil {
		s.Slow, err = t.Slow.Export()
	}
	return s, err
}

// Import takes a state over. A network of which it has no weights stays as it is.
func (t *Trainee) Import(s TraineeState) error {
	if s.Weights != nil {
		if err := t.Net.Import(s.Weights); err != nil {
			return err
		}
	}
	if s.Slow != nil && t.Slow != nil {
		if err := t.Slow.Import(s.Slow); err != nil {
			return err
		}
	}
	t.Updates = s.Updates
	return t.adam.Import(s.Moments)
}

// Keep notes the present state, to which Revert goes back.
func (t *Trainee) Keep() (err error) {
	t.kept, err = t.Export()
	return err
}

// Revert goes back to the state that was kept last.
func (t *Trainee) Revert() error { return t.Import(t.kept) }
