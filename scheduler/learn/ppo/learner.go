//go:build torch

package ppo

import (
	"fmt"
	"math/rand/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/torch"
	"gnnsched/scheduler/learn/run"
)

// learner takes the updates of all phases. Not safe for concurrent use.
type learner struct {
	*torch.Trainee
	config settings
}

// newLearner returns a learner that starts from the weights of c.
func newLearner(config settings, c *checkpoint.Checkpoint) (*learner, error) {
	t, err := torch.NewTrainee(c, config.LearningRate, false)
	return &learner{t, config}, err
}

// terms are the parts of an update's loss.
type terms struct {
	policy, value, entropy, cloning float64 // weights; 0 leaves a part out
	apart                           bool    // whether the critic's gradient stays in its own layers
}

// terms returns the parts of the loss at a step.
func (p *learner) terms(step int) terms {
	c := p.config
	switch p.config.phase(step) {
	case cloning:
		return terms{cloning: 1, value: c.ValueCoef, apart: true}
	case warmingUp:
		return terms{value: 1, apart: true}
	default:
		left := p.config.left(step)
		return terms{policy: 1, value: c.ValueCoef, entropy: c.Entropy * left, cloning: p.config.Imitation.Coefficient * left,
			apart: c.CriticApart}
	}
}

// update learns from a rollout in epochs of minibatches, until the policy has moved too far.
func (p *learner) update(r rollout, rng *rand.Rand, step int, f *run.Figures) error {
	parts := p.terms(step)
	if err := p.rates(step, parts); err != nil {
		return err
	}
	p.Net.ValueApart = parts.apart
	if parts.policy > 0 {
		r.normalise()
	}
	f.Add(tagExplained, r.explained())
	n := len(r)
	for range p.config.Epochs {
		order := stretches(rng, n)
		for from := 0; from < n; from += p.config.BatchSize {
			b := &minibatch{rollout: r, rows: order[from:min(from+p.config.BatchSize, n)], figures: f}
			if far, err := p.descend(b, parts); far || err != nil {
				return err
			}
		}
	}
	return nil
}

// stretch is the number of consecutive decisions of an environment that a minibatch keeps together.
// They share most of their nodes, which are then embedded once.
const stretch = 16

// stretches returns the rows of a rollout of n decisions, with its stretches in random order.
func stretches(rng *rand.Rand, n int) []int {
	order := make([]int, 0, n)
	for _, i := range rng.Perm((n + stretch - 1) / stretch) {
		for row := i * stretch; row < min((i+1)*stretch, n); row++ {
			order = append(order, row)
		}
	}
	return order
}

// rates sets the learning rates of policy and critic.
func (p *learner) rates(step int, parts terms) error {
	rate, c := p.config.LearningRateAt(step), p.config
	if err := p.Adam.SetLearningRate(rate); err != nil {
		return err
	}
	actor, critic := 1.0, 1.0
	if c.ActorLearningRate > 0 {
		actor = c.ActorLearningRate / c.LearningRate
	}
	if c.CriticLearningRate > 0 {
		critic = c.CriticLearningRate / c.LearningRate
	}
	if parts.policy == 0 && parts.cloning == 0 {
		actor = 0
	}
	if err := p.Adam.Scale("", actor); err != nil {
		return err
	}
	return p.Adam.Scale(torch.ValueLayers, critic)
}

// minibatch is the part of a rollout that a step of the optimiser learns from.
type minibatch struct {
	scope   torch.Scope // of the step's tensors
	graphs  *graph.Batch
	rollout rollout
	rows    []int // of the rollout
	figures *run.Figures
}

// descend takes one step of the optimiser, unless the policy has moved too far already: then it
// changes nothing and far is true.
func (p *learner) descend(b *minibatch, parts terms) (far bool, err error) {
	s := &b.scope
	defer s.Drop()
	b.graphs = graph.ConcatShared(column(b.rollout, b.rows, func(s *step) *graph.Graph { return s.state }))
	out := p.Net.Forward(s, b.graphs)
	loss := s.Scale(p.valueLoss(b, out.Value), parts.value)
	if parts.policy > 0 || parts.cloning > 0 {
		logs := s.SegmentLogSoftmax(out.Scores, b.graphs.CandidateGraph, b.graphs.Size)
		if parts.policy > 0 {
			policy, kl := p.policyLoss(b, logs)
			if limit := p.config.TargetKL; limit > 0 && kl > limit {
				return true, s.Err()
			}
			loss = s.Add(loss, s.Scale(policy, parts.policy))
		}
		entropy := s.Scale(s.Sum(s.Mul(s.Exp(logs), logs)), -1/float64(b.graphs.Size))
		b.figures.Add(tagEntropy, s.Float(entropy))
		if parts.entropy > 0 {
			loss = s.Sub(loss, s.Scale(entropy, parts.entropy))
		}
		if clone := cloningLoss(b, logs); clone != nil && parts.cloning > 0 {
			loss = s.Add(loss, s.Scale(clone, parts.cloning))
		}
	}
	descent := torch.Descent{Limit: p.config.ClipNorm}
	if parts.apart { // the critic's gradient is by far the larger one: a common limit would scale the policy's down with it
		descent.Apart = torch.ValueLayers
	}
	norm, err := p.Step(s, loss, descent)
	if err != nil {
		return false, fmt.Errorf("PPO update: %w", err)
	}
	b.figures.Add(run.TagNorm, norm)
	return false, nil
}
