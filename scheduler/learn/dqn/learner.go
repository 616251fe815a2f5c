//go:build torch

package dqn

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/torch"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy"
)

// huberDelta is the error at which the loss turns from quadratic to linear, in units of the scaled reward.
const huberDelta = 1

// learner takes the updates: double (van Hasselt et al. 2016) and dueling (Wang et al. 2016)
// Q-learning on n-step transitions drawn from a memory. Not safe for concurrent use.
type learner struct {
	*torch.Trainee // Slow is the target network, whose values are bootstrapped from
	config         settings
}

// newLearner returns a learner that starts from the weights of c.
func newLearner(config settings, c *checkpoint.Checkpoint) (*learner, error) {
	t, err := torch.NewTrainee(c, config.LearningRate, true)
	return &learner{t, config}, err
}

// update draws a batch, takes one step of the optimiser, sets the batch's priorities and notes its figures. The
// schedules depend on step, the number of placements so far.
func (d *learner) update(m *memory, rng *rand.Rand, step int, f *run.Figures) error {
	progress := float64(step) / float64(d.config.Steps)
	drawn := m.draw(rng, d.config.BatchSize, 0.4+0.6*progress)
	targets, err := d.targets(drawn.transitions)
	if err != nil {
		return fmt.Errorf("DQN targets: %w", err)
	}
	errors, err := d.step(drawn, targets, step, f)
	if err != nil {
		return fmt.Errorf("DQN update %d: %w", d.Updates, err)
	}
	m.prioritise(drawn.slots, errors)
	if d.Updates%d.config.TargetUpdateFrequency == 0 {
		err = d.Slow.CopyFrom(&d.Net.Parameters)
	}
	return err
}

// targets returns R + γⁿ Q_target(s', argmax Q(s')) for every transition.
func (d *learner) targets(ts []transition) ([]float32, error) {
	y := make([]float32, len(ts))
	var next []*graph.Graph
	var of []int // index of the transition that each is of
	for i, t := range ts {
		y[i] = float32(t.ret)
		if t.next != nil {
			next, of = append(next, t.next.graph()), append(of, i)
		}
	}
	if len(next) == 0 {
		return y, nil
	}
	var s torch.Scope
	defer s.Drop()
	batch := graph.Concat(next)
	var choose, value []float32
	torch.NoGrad(func() {
		choose = s.Float32s(d.Net.Forward(&s, batch).Scores)
		value = s.Float32s(d.Slow.Forward(&s, batch).Q(&s, batch))
	})
	if s.Err() != nil {
		return nil, s.Err()
	}
	for b, i := range of {
		from, to := batch.CandidateStart[b], batch.CandidateStart[b+1]
		y[i] += float32(ts[i].discount) * value[from+policy.Best(choose[from:to])]
	}
	return y, nil
}

// step takes one step of the optimiser and returns the temporal differences, one a transition.
func (d *learner) step(b sample, targets []float32, at int, f *run.Figures) ([]float32, error) {
	var s torch.Scope
	defer s.Drop()
	n := len(b.transitions)
	graphs, chosen := make([]*graph.Graph, n), make([]int64, n)
	for i, t := range b.transitions {
		graphs[i] = t.state.graph()
	}
	batch := graph.Concat(graphs)
	for i, t := range b.transitions {
		chosen[i] = int64(batch.CandidateStart[i] + t.action)
	}
	out := d.Net.Forward(&s, batch)
	q := s.Rows(out.Q(&s, batch), s.Int64(chosen, n))
	td := s.HuberEach(q, s.Float32(targets, n, 1), huberDelta)
	loss := s.Mean(s.Mul(td, s.Float32(b.weights, n, 1)))
	f.Add(tagTDLoss, s.Float(loss))
	if weight := d.config.marginWeight(at); weight > 0 {
		if margin := d.marginLoss(&s, out.Scores, batch, b.transitions); margin != nil {
			f.Add(tagMargin, s.Float(margin))
			loss = s.Add(loss, s.Scale(margin, weight))
		}
	}
	errors, mean := s.Float32s(q), 0.0
	if s.Err() != nil {
		return nil, s.Err()
	}
	for i, y := range targets {
		mean += float64(errors[i]) / float64(n)
		errors[i] -= y
	}
	rate := d.config.LearningRateAt(at)
	norm, err := d.Step(&s, loss, torch.Descent{Rate: rate, Limit: d.config.ClipNorm})
	f.Add(tagQ, mean)
	f.Add(run.TagNorm, norm)
	f.Add(run.TagLearningRate, rate)
	return errors, err
}

// marginLoss returns the large-margin loss of DQfD, max_i (a_i + m·[i ≠ teacher]) - a_teacher,
// averaged over the transitions with a teacher. The maximum is smooth, m·log Σ_i exp(x_i / m), so
// that the gradient reaches all candidates and not only the best one. The loss is nil if no
// transition has a teacher or if the margin is 0.
func (d *learner) marginLoss(s *torch.Scope, scores *torch.Tensor, b *graph.Batch, ts []transition) *torch.Tensor {
	margin := d.config.Imitation.Margin
	lead := slices.Repeat([]float32{float32(margin)}, len(b.CandidateGraph))
	var teacher []int64
	for i, t := range ts {
		if t.teacher >= 0 {
			at := b.CandidateStart[i] + t.teacher
			lead[at], teacher = 0, append(teacher, int64(at))
		}
	}
	if len(teacher) == 0 || margin == 0 {
		return nil
	}
	x := s.Scale(s.Add(scores, s.Float32(lead, len(lead), 1)), 1/margin)
	logs := s.SegmentLogSoftmax(x, b.CandidateGraph, b.Size)
	return s.Scale(s.Mean(s.Rows(logs, s.Int64(teacher, len(teacher)))), -margin)
}
