//go:build torch

package ppo

import (
	"math"

	"gnnsched/gnn/graph"
	"gnnsched/gnn/torch"
	"gnnsched/scheduler/policy"
)

// policyLoss returns the mean of -min(r A, clip(r) A) over the decisions, with the ratios r of new to
// old probabilities and the advantages A. It also returns how far the policy has moved: the mean of
// (r - 1) - log r, an estimate of the KL divergence (Schulman 2020). logs are the candidates'
// log-probabilities.
func (p *learner) policyLoss(b *minibatch, logs *torch.Tensor) (loss *torch.Tensor, kl float64) {
	s, r := &b.scope, b.rollout
	n, clip := len(b.rows), p.config.Clip
	old := column(r, b.rows, func(x *step) float32 { return x.log })
	actions := column(r, b.rows, func(x *step) int { return x.action })
	advantage := column(r, b.rows, func(x *step) float32 { return float32(x.advantage) })
	change := s.Sub(s.Rows(logs, s.Int64(chosen(b.graphs, actions), n)), s.Float32(old, n, 1))
	a, ratio := s.Float32(advantage, n, 1), s.Exp(change)
	loss = s.Neg(s.Mean(s.Minimum(s.Mul(ratio, a), s.Mul(s.Clamp(ratio, 1-clip, 1+clip), a))))
	clipped := 0.0
	for _, c := range s.Float32s(change) {
		ratio := math.Exp(float64(c))
		kl += (ratio - 1 - float64(c)) / float64(n)
		if math.Abs(ratio-1) > clip {
			clipped += 1 / float64(n)
		}
	}
	b.figures.Add(tagKL, kl)
	b.figures.Add(tagClipped, clipped)
	b.figures.Add(tagPolicyLoss, s.Float(loss))
	return loss, kl
}

// valueLoss returns half the mean squared error of the critic. With ValueClip, a decision's error is
// the larger one of the value's and of the value's after clipping its change since the rollout.
func (p *learner) valueLoss(b *minibatch, value *torch.Tensor) *torch.Tensor {
	s, n := &b.scope, len(b.rows)
	target := s.Float32(column(b.rollout, b.rows, func(x *step) float32 { return float32(x.target) }), n, 1)
	square := s.Square(s.Sub(value, target))
	if clip := p.config.ValueClip; clip > 0 {
		was := s.Float32(column(b.rollout, b.rows, func(x *step) float32 { return float32(x.value) }), n, 1)
		near := s.Add(was, s.Clamp(s.Sub(value, was), -clip, clip))
		square = s.Maximum(square, s.Square(s.Sub(near, target)))
	}
	loss := s.Scale(s.Mean(square), 0.5)
	b.figures.Add(tagValueLoss, s.Float(loss))
	return loss
}

// cloningLoss returns the mean cross-entropy of the policy against the teacher's choices; nil if the
// rollout has none.
func cloningLoss(b *minibatch, logs *torch.Tensor) *torch.Tensor {
	teacher := column(b.rollout, b.rows, func(x *step) int { return x.teacher })
	if teacher[0] < 0 { // all of a rollout's decisions have a teacher, or none
		return nil
	}
	s, n := &b.scope, len(teacher)
	loss := s.Neg(s.Mean(s.Rows(logs, s.Int64(chosen(b.graphs, teacher), n))))
	values, agree := s.Float32s(logs), 0.0
	if s.Err() != nil {
		return nil
	}
	for i, t := range teacher {
		of := values[b.graphs.CandidateStart[i]:b.graphs.CandidateStart[i+1]]
		if of[policy.Best(of)] == of[t] { // nodes in the same state count as the same choice
			agree += 1 / float64(n)
		}
	}
	b.figures.Add(tagCloning, s.Float(loss))
	b.figures.Add(tagAgreement, agree)
	return loss
}

// chosen returns the rows of the batch's candidates that the actions are.
func chosen(b *graph.Batch, actions []int) []int64 {
	out := make([]int64, len(actions))
	for i, a := range actions {
		out[i] = int64(b.CandidateStart[i] + a)
	}
	return out
}
