//go:build torch

package rollouts

import (
	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/torch"
)

// huberDelta is the error at which the loss turns from quadratic to linear, in units of the scale.
// Costs have heavy tails: sometimes a choice decides whether a pod has to wait.
const huberDelta = 3

// learner fits a network's scores to the worths of candidates. Not safe for concurrent use.
type learner struct {
	config settings
	net    *torch.Network
	slow   *torch.Network // average of net over the updates; plays
	adam   *torch.Adam
}

func newLearner(config settings, c *checkpoint.Checkpoint) (*learner, error) {
	l := &learner{config: config}
	var err error
	if l.net, err = torch.NewNetwork(c); err != nil {
		return nil, err
	}
	if l.slow, err = torch.NewNetwork(c); err != nil {
		l.drop()
		return nil, err
	}
	if l.adam, err = torch.NewAdam(&l.net.Parameters, torch.AdamConfig{LearningRate: config.LearningRate, Beta1: 0.9, Beta2: 0.999}); err != nil {
		l.drop()
		return nil, err
	}
	return l, nil
}

func (l *learner) drop() {
	for _, n := range []*torch.Network{l.net, l.slow} {
		if n != nil {
			n.Drop()
		}
	}
}

// update takes one step of the optimiser: the scores of the tried candidates, relative to their mean, towards
// the worths relative to theirs, divided by size. It returns the mean squared error and the gradient's norm.
func (l *learner) update(samples []*sample, size float64, step int) (loss, norm float64, err error) {
	var s torch.Scope
	defer s.Drop()
	graphs := make([]*graph.Graph, len(samples))
	for i, x := range samples {
		graphs[i] = x.State
	}
	batch := graph.Concat(graphs)
	var tried, segment []int64
	var want []float32
	for i, x := range samples {
		for k, w := range x.centred() {
			tried = append(tried, int64(batch.CandidateStart[i])+int64(x.Tried[k]))
			segment = append(segment, int64(i))
			want = append(want, float32(w/size))
		}
	}
	scores := s.Rows(l.net.Forward(&s, batch).Scores, s.Int64(tried, len(tried)))
	mean := s.Mean(s.HuberEach(s.SegmentCentre(scores, segment, len(samples)), s.Float32(want, len(want), 1), huberDelta))
	loss = s.Float(mean)
	if err := l.net.ZeroGrad(); err != nil {
		return loss, 0, err
	}
	s.Backward(mean)
	if s.Err() != nil {
		return loss, 0, s.Err()
	}
	if norm, err = l.net.ClipGrad(l.config.ClipNorm); err != nil {
		return loss, norm, err
	}
	if err := l.adam.SetLearningRate(l.config.LearningRateAt(step)); err != nil {
		return loss, norm, err
	}
	if err := l.adam.Step(); err != nil {
		return loss, norm, err
	}
	return loss, norm, l.slow.Blend(&l.net.Parameters, l.config.Averaging)
}

// learnerState is everything that a learner continues from. The field names are the state file's.
type learnerState struct {
	Weights, Slow []torch.Array
	Moments       []torch.Moments
}

func (l *learner) export() (s learnerState, err error) {
	s.Moments = l.adam.Export()
	if s.Weights, err = l.net.Export(); err != nil {
		return s, err
	}
	s.Slow, err = l.slow.Export()
	return s, err
}

func (l *learner) restore(s learnerState) error {
	if err := l.net.Import(s.Weights); err != nil {
		return err
	}
	if err := l.slow.Import(s.Slow); err != nil {
		return err
	}
	return l.adam.Import(s.Moments)
}
