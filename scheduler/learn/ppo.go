//go:build torch

package learn

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/torch"
)

// PPO is proximal policy optimisation with a clipped ratio (Schulman et al. 2017), which begins
// with behaviour cloning. Not safe for concurrent use.
type PPO struct {
	config Config
	net    *torch.Network
	adam   *torch.Adam
}

// NewPPO starts from the weights of c.
func NewPPO(config Config, c *checkpoint.Checkpoint) (*PPO, error) {
	p := &PPO{config: config}
	var err error
	if p.net, err = torch.NewNetwork(c); err != nil {
		return nil, err
	}
	if p.adam, err = torch.NewAdam(&p.net.Parameters, torch.AdamConfig{LearningRate: config.LearningRate, Beta1: 0.9, Beta2: 0.999}); err != nil {
		p.net.Drop()
		return nil, err
	}
	return p, nil
}

// terms is what an update's loss is made of.
type terms struct {
	policy, value, entropy, cloning float64 // weights
	apart                           bool    // whether the critic's gradient stays in its own layers
}

func (p *PPO) terms(step int) terms {
	c := p.config.PPO
	switch p.config.phase(step) {
	case cloning:
		return terms{cloning: 1, value: c.ValueCoef, apart: true}
	case warmingUp:
		return terms{value: 1, apart: true}
	default:
		left := p.config.improved(step)
		return terms{policy: 1, value: c.ValueCoef, entropy: c.Entropy * left, cloning: p.config.Imitation.Coefficient * left, apart: c.CriticApart}
	}
}

// update learns from a rollout in epochs of minibatches, until the policy has moved too far.
func (p *PPO) update(r *rollout, rng *rand.Rand, step int, f *figures) error {
	o := p.terms(step)
	if err := p.rates(step, o); err != nil {
		return err
	}
	p.net.ValueApart = o.apart
	if o.policy > 0 {
		normalise(r.advantages)
	}
	f.add(TagExplained, explained(r.values, r.returns))
	n := len(r.states)
	for range p.config.PPO.Epochs {
		order := stretches(rng, n)
		for from := 0; from < n; from += p.config.BatchSize {
			if far, err := p.step(r, order[from:min(from+p.config.BatchSize, n)], o, f); far || err != nil {
				return err
			}
		}
	}
	return nil
}

// stretch is how many consecutive decisions of one environment an update learns from together:
// they share most of their nodes, which are embedded once.
const stretch = 16

// stretches returns the rows of a rollout of n decisions, its stretches in random order.
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
func (p *PPO) rates(step int, o terms) error {
	rate, c := p.config.learningRate(step), p.config.PPO
	if err := p.adam.SetLearningRate(rate); err != nil {
		return err
	}
	actor, critic := 1.0, 1.0
	if c.ActorLearningRate > 0 {
		actor = c.ActorLearningRate / p.config.LearningRate
	}
	if c.CriticLearningRate > 0 {
		critic = c.CriticLearningRate / p.config.LearningRate
	}
	if o.policy == 0 && o.cloning == 0 {
		actor = 0
	}
	if err := p.adam.Scale("", actor); err != nil {
		return err
	}
	return p.adam.Scale(torch.ValueLayers, critic)
}

// step takes one step of the optimiser on some of the rollout's decisions, unless the policy has
// moved too far already: then it tells so and changes nothing.
func (p *PPO) step(r *rollout, rows []int, o terms, f *figures) (far bool, err error) {
	var s torch.Scope
	defer s.Drop()
	b := graph.ConcatShared(pick(r.states, rows))
	out := p.net.Forward(&s, b)
	loss := s.Scale(p.valueLoss(&s, out.Value, r, rows, f), o.value)
	if o.policy > 0 || o.cloning > 0 {
		logs := s.SegmentLogSoftmax(out.Scores, b.CandidateGraph, b.Size)
		if o.policy > 0 {
			var policy *torch.Tensor
			var kl float64
			policy, kl = p.policyLoss(&s, logs, b, r, rows, f)
			if limit := p.config.PPO.TargetKL; limit > 0 && kl > limit {
				return true, s.Err()
			}
			loss = s.Add(loss, s.Scale(policy, o.policy))
		}
		entropy := s.Scale(s.Sum(s.Mul(s.Exp(logs), logs)), -1/float64(b.Size))
		f.add(TagEntropy, s.Float(entropy))
		if o.entropy > 0 {
			loss = s.Sub(loss, s.Scale(entropy, o.entropy))
		}
		if clone := cloningLoss(&s, logs, b, pick(r.teacher, rows), f); clone != nil && o.cloning > 0 {
			loss = s.Add(loss, s.Scale(clone, o.cloning))
		}
	}
	if err := p.net.ZeroGrad(); err != nil {
		return false, err
	}
	s.Backward(loss)
	if s.Err() != nil {
		return false, s.Err()
	}
	norm, err := p.clip(o)
	if err != nil {
		return false, fmt.Errorf("PPO update: %w", err)
	}
	f.add(TagNorm, norm)
	return false, p.adam.Step()
}

// clip limits the gradient's norm. Where the critic is apart so is its norm, the larger one by far:
// a common limit would scale the policy's gradient with it.
func (p *PPO) clip(o terms) (norm float64, err error) {
	if o.apart {
		return p.net.ClipGradApart(p.config.ClipNorm, torch.ValueLayers)
	}
	return p.net.ClipGrad(p.config.ClipNorm)
}

// policyLoss is the mean of -min(r A, clip(r) A) over the decisions. It comes with how far the
// policy has moved: the mean of (r - 1) - log r over the ratios r of new to old probabilities, an
// estimate of the KL divergence (Schulman 2020).
func (p *PPO) policyLoss(s *torch.Scope, logs *torch.Tensor, b *graph.Batch, r *rollout, rows []int, f *figures) (*torch.Tensor, float64) {
	n, clip := len(rows), p.config.PPO.Clip
	change := s.Sub(s.Rows(logs, s.Int64(chosen(b, pick(r.actions, rows)), n)), s.Float32(pick(r.logs, rows), n, 1))
	advantage := make([]float32, n)
	for i, at := range rows {
		advantage[i] = float32(r.advantages[at])
	}
	a, ratio := s.Float32(advantage, n, 1), s.Exp(change)
	loss := s.Neg(s.Mean(s.Minimum(s.Mul(ratio, a), s.Mul(s.Clamp(ratio, 1-clip, 1+clip), a))))
	var kl, clipped float64
	for _, c := range s.Float32s(change) {
		ratio := math.Exp(float64(c))
		kl += (ratio - 1 - float64(c)) / float64(n)
		if math.Abs(ratio-1) > clip {
			clipped += 1 / float64(n)
		}
	}
	f.add(TagKL, kl)
	f.add(TagClipped, clipped)
	f.add(TagPolicyLoss, s.Float(loss))
	return loss, kl
}

// valueLoss is half the mean squared error of the critic; where ValueClip is set, the larger of
// it and that of the value moved by no more than that from the rollout's.
func (p *PPO) valueLoss(s *torch.Scope, value *torch.Tensor, r *rollout, rows []int, f *figures) *torch.Tensor {
	n := len(rows)
	returns, old := make([]float32, n), make([]float32, n)
	for i, at := range rows {
		returns[i], old[i] = float32(r.returns[at]), float32(r.values[at])
	}
	target := s.Float32(returns, n, 1)
	square := s.Square(s.Sub(value, target))
	if clip := p.config.PPO.ValueClip; clip > 0 {
		was := s.Float32(old, n, 1)
		near := s.Add(was, s.Clamp(s.Sub(value, was), -clip, clip))
		square = s.Maximum(square, s.Square(s.Sub(near, target)))
	}
	loss := s.Scale(s.Mean(square), 0.5)
	f.add(TagValueLoss, s.Float(loss))
	return loss
}

// cloningLoss is the mean cross-entropy of the policy against the teacher's choices; nil where
// there is none.
func cloningLoss(s *torch.Scope, logs *torch.Tensor, b *graph.Batch, teacher []int, f *figures) *torch.Tensor {
	if teacher[0] < 0 { // all of a rollout's decisions have a teacher, or none
		return nil
	}
	n := len(teacher)
	loss := s.Neg(s.Mean(s.Rows(logs, s.Int64(chosen(b, teacher), n))))
	values, agree := s.Float32s(logs), 0.0
	if s.Err() != nil {
		return nil
	}
	for i, t := range teacher {
		of := values[b.CandidateStart[i]:b.CandidateStart[i+1]]
		if of[argmax(of)] == of[t] { // nodes in the same state count as the same choice
			agree += 1 / float64(n)
		}
	}
	f.add(TagCloning, s.Float(loss))
	f.add(TagAgreement, agree)
	return loss
}

// chosen are the rows of the batch's candidates that the actions name.
func chosen(b *graph.Batch, actions []int) []int64 {
	out := make([]int64, len(actions))
	for i, a := range actions {
		out[i] = int64(b.CandidateStart[i] + a)
	}
	return out
}
