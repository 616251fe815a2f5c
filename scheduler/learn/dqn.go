//go:build torch

package learn

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/torch"
)

// huberDelta is where the loss turns from quadratic to linear, in units of the scaled reward.
const huberDelta = 1

// DQN is deep Q-learning: double (van Hasselt et al. 2016), dueling, n-step, with prioritised
// replay, a target network and the Huber loss. Not safe for concurrent use.
type DQN struct {
	config  Config
	online  *torch.Network
	target  *torch.Network
	adam    *torch.Adam
	updates int
}

// Update is what one update saw.
type Update struct {
	Loss   float64 // weighted Huber loss of the temporal difference
	Norm   float64 // of the gradient, before clipping
	Q      float64 // mean value of the actions taken
	Margin float64 // large-margin loss; 0 without a teacher
}

// NewDQN starts from the weights of c.
func NewDQN(config Config, c *checkpoint.Checkpoint) (*DQN, error) {
	d := &DQN{config: config}
	var err error
	if d.online, err = torch.NewNetwork(c); err != nil {
		return nil, err
	}
	if d.target, err = torch.NewNetwork(c); err != nil {
		d.Drop()
		return nil, err
	}
	if d.adam, err = torch.NewAdam(&d.online.Parameters, torch.AdamConfig{LearningRate: config.LearningRate, Beta1: 0.9, Beta2: 0.999}); err != nil {
		d.Drop()
		return nil, err
	}
	return d, nil
}

// Drop frees the networks.
func (d *DQN) Drop() {
	for _, n := range []*torch.Network{d.online, d.target} {
		if n != nil {
			n.Drop()
		}
	}
}

// Checkpoint returns the weights as they are now.
func (d *DQN) Checkpoint() (*checkpoint.Checkpoint, error) { return d.online.Checkpoint() }

// Update draws a batch, takes one step of the optimiser, and gives the batch new priorities.
// step says how far the run is, for the schedules.
func (d *DQN) Update(replay *Replay, rng *rand.Rand, step int) (Update, error) {
	progress := float64(step) / float64(d.config.Steps)
	sample := replay.Draw(rng, d.config.BatchSize, 0.4+0.6*progress)
	targets, err := d.targets(sample.Transitions)
	if err != nil {
		return Update{}, fmt.Errorf("DQN targets: %w", err)
	}
	u, errors, err := d.step(sample, targets, d.config.marginWeight(step), step)
	if err != nil {
		return Update{}, fmt.Errorf("DQN update %d: %w", d.updates, err)
	}
	replay.Prioritise(sample.Slots, errors)
	if d.updates++; d.updates%d.config.DQN.TargetUpdateFrequency == 0 {
		err = d.target.CopyFrom(&d.online.Parameters)
	}
	return u, err
}

// targets returns R + γⁿ Q_target(s', argmax Q_online(s')) for every transition.
func (d *DQN) targets(ts []Transition) ([]float32, error) {
	y := make([]float32, len(ts))
	var next []*graph.Graph
	var of []int
	for i, t := range ts {
		y[i] = float32(t.Return)
		if t.Next != nil {
			next, of = append(next, t.Next), append(of, i)
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
		choose = s.Float32s(d.online.Forward(&s, batch).Scores)
		value = s.Float32s(d.target.Forward(&s, batch).Q(&s, batch))
	})
	if s.Err() != nil {
		return nil, s.Err()
	}
	for b, i := range of {
		from, to := batch.CandidateStart[b], batch.CandidateStart[b+1]
		y[i] += float32(ts[i].Discount) * value[from+argmax(choose[from:to])]
	}
	return y, nil
}

// step takes one step of the optimiser and returns the temporal differences' sizes.
func (d *DQN) step(sample Sample, targets []float32, marginWeight float64, at int) (Update, []float32, error) {
	var s torch.Scope
	defer s.Drop()
	n := len(sample.Transitions)
	graphs, chosen := make([]*graph.Graph, n), make([]int64, n)
	for i, t := range sample.Transitions {
		graphs[i] = t.State
	}
	batch := graph.Concat(graphs)
	for i, t := range sample.Transitions {
		chosen[i] = int64(batch.CandidateStart[i] + t.Action)
	}
	out := d.online.Forward(&s, batch)
	q := s.Rows(out.Q(&s, batch), s.Int64(chosen, n))
	td := s.HuberEach(q, s.Float32(targets, n, 1), huberDelta)
	loss := s.Mean(s.Mul(td, s.Float32(sample.Weights, n, 1)))
	u := Update{Loss: s.Float(loss)}
	if marginWeight > 0 {
		if margin := d.marginLoss(&s, out.Scores, batch, sample.Transitions); margin != nil {
			u.Margin = s.Float(margin)
			loss = s.Add(loss, s.Scale(margin, marginWeight))
		}
	}
	errors := s.Float32s(q)
	if s.Err() != nil {
		return u, nil, s.Err()
	}
	for i, y := range targets {
		u.Q += float64(errors[i]) / float64(n)
		errors[i] -= y
	}
	if err := d.online.ZeroGrad(); err != nil {
		return u, nil, err
	}
	s.Backward(loss)
	if s.Err() != nil {
		return u, nil, s.Err()
	}
	var err error
	if u.Norm, err = d.online.ClipGrad(d.config.ClipNorm); err != nil {
		return u, nil, err
	}
	if err := d.adam.SetLearningRate(d.config.learningRate(at)); err != nil {
		return u, nil, err
	}
	return u, errors, d.adam.Step()
}

// marginLoss is the large-margin loss of DQfD, max_i (a_i + m·[i ≠ teacher]) - a_teacher, averaged
// over the transitions with a teacher, with a smooth maximum: m·log Σ_i exp(x_i / m) for max_i x_i.
// The hard one has a gradient for one rival of the many at a time. It is nil where nobody has a
// teacher, or the margin is 0.
func (d *DQN) marginLoss(s *torch.Scope, scores *torch.Tensor, b *graph.Batch, ts []Transition) *torch.Tensor {
	margin := d.config.Imitation.Margin
	lead := slices.Repeat([]float32{float32(margin)}, len(b.CandidateGraph))
	var teacher []int64
	for i, t := range ts {
		if t.Teacher >= 0 {
			at := b.CandidateStart[i] + t.Teacher
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

func argmax(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}
