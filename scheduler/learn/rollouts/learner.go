//go:build torch

package rollouts

import (
	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/torch"
)

// outlier is the error at which the loss turns from quadratic to linear, in root mean squares of the worths.
// It must be large. The costs of candidates have heavy tails, since a choice rarely decides whether a
// pod has to wait. A small one would fit the median, in which such waits do not count.
const outlier = 10

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

// units are the divisors of worths and of the teacher's scores.
type units struct{ worths, taught scale }

// targets are the desired scores of some candidates, relative to their mean over each sample.
type targets struct {
	rows, segment []int64
	want          []float32
}

// add adds the targets of some candidates of sample i, which begins at a row of the batch. nil stands for all
// candidates.
func (t *targets) add(i int, start int64, candidates []int32, values []float64, unit float64) {
	for k, w := range centred(values) {
		row := start + int64(k)
		if candidates != nil {
			row = start + int64(candidates[k])
		}
		t.rows, t.segment, t.want = append(t.rows, row), append(t.segment, int64(i)), append(t.want, float32(w/unit))
	}
}

// loss returns the mean Huber loss of scores.
func (t *targets) loss(s *torch.Scope, scores *torch.Tensor, samples int, limit float64) *torch.Tensor {
	tried := s.SegmentCentre(s.Rows(scores, s.Int64(t.rows, len(t.rows))), t.segment, samples)
	return s.Mean(s.HuberEach(tried, s.Float32(t.want, len(t.want), 1), limit))
}

// update takes one step of the optimiser: the scores of the tried candidates, relative to their mean, towards
// the worths relative to theirs; and those of all candidates towards the teacher's, with the weight Anchor. It
// returns the loss and the gradient's norm.
func (l *learner) update(samples []*sample, u units, step int) (loss, norm float64, err error) {
	var s torch.Scope
	defer s.Drop()
	graphs := make([]*graph.Graph, len(samples))
	for i, x := range samples {
		graphs[i] = x.State
	}
	batch := graph.Concat(graphs)
	var tried, taught targets
	for i, x := range samples {
		start := int64(batch.CandidateStart[i])
		tried.add(i, start, x.Tried, x.Worth, u.worths.size())
		taught.add(i, start, nil, x.Taught, u.taught.size())
	}
	scores := l.net.Forward(&s, batch).Scores
	mean := tried.loss(&s, scores, len(samples), outlier*u.worths.rms()/u.worths.size())
	if len(taught.rows) > 0 {
		mean = s.Add(mean, s.Scale(taught.loss(&s, scores, len(samples), outlier), l.config.Anchor))
	}
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
