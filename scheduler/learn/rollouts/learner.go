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
	*torch.Trainee // Slow is the average of Net over the updates, and plays
	config         settings
}

func newLearner(config settings, c *checkpoint.Checkpoint) (*learner, error) {
	t, err := torch.NewTrainee(c, config.LearningRate, true)
	return &learner{t, config}, err
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
	scores := l.Net.Forward(&s, batch).Scores
	mean := tried.loss(&s, scores, len(samples), outlier*u.worths.rms()/u.worths.size())
	if len(taught.rows) > 0 {
		mean = s.Add(mean, s.Scale(taught.loss(&s, scores, len(samples), outlier), l.config.Anchor))
	}
	loss = s.Float(mean)
	if norm, err = l.Step(&s, mean, torch.Descent{Rate: l.config.LearningRateAt(step), Limit: l.config.ClipNorm}); err != nil {
		return loss, norm, err
	}
	return loss, norm, l.Slow.Blend(&l.Net.Parameters, l.config.Averaging)
}
