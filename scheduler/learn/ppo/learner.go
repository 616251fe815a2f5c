//go:build torch

package ppo

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/torch"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy"
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

// agent acts in several environments side by side and learns from the rollout of all of them.
type agent struct {
	*learner
	envs    *run.Environments
	rollout rollout
	after   []float64 // values of the states after the rollout, by environment
}

var _ run.Method = Config{}

// Layout implements run.Method.
func (c Config) Layout() run.Layout { return run.Layout{Count: c.Envs, Group: c.Group} }

// NewAgent implements run.Method.
func (c Config) NewAgent(s run.Settings, e *run.Environments, start *checkpoint.Checkpoint) (run.Agent, error) {
	l, err := newLearner(settings{s, c}, start)
	if err != nil {
		return nil, err
	}
	return &agent{learner: l, envs: e, rollout: make(rollout, c.Envs*c.Rollout), after: make([]float64, c.Envs)}, nil
}

// Round implements run.Agent: it plays a rollout and learns from it.
func (a *agent) Round(step, _ int) (int, error) {
	if err := a.play(step); err != nil {
		return 0, err
	}
	r := a.rollout
	r.estimate(a.after, a.config.Discount(), a.config.Lambda)
	r.centre(a.config.Group, a.config.Rollout)
	a.envs.Figures.Add(run.TagLearningRate, a.config.LearningRateAt(step))
	return len(r), a.update(r, a.envs.Rand, step, a.envs.Figures)
}

// play fills the rollout, group by group, and the values of the states after it.
func (a *agent) play(step int) error {
	for first := 0; first < len(a.envs.All); first += a.config.Group {
		if err := a.playGroup(first, step); err != nil {
			return err
		}
	}
	for i, env := range a.envs.All {
		var err error
		if a.after[i], err = env.Value(); err != nil {
			return err
		}
	}
	return nil
}

// playGroup makes the rollout's placements in the group that begins with environment first. When
// an episode ends in one of the group, it is truncated in the others, so that all of them always
// play the same episode.
func (a *agent) playGroup(first, step int) error {
	length, r := a.config.Rollout, a.rollout
	group := a.envs.All[first : first+a.config.Group]
	for t := range length {
		ended := false
		for e, env := range group {
			i := (first+e)*length + t
			if err := a.place(env, i, step); err != nil {
				return err
			}
			ended = ended || r[i].last
		}
		for e, env := range group {
			if !ended {
				break
			}
			if err := a.nextEpisode(env, (first+e)*length+t); err != nil {
				return err
			}
		}
	}
	return nil
}

// nextEpisode begins the next episode after placement i, and truncates the present one if it has
// not ended.
func (a *agent) nextEpisode(env *run.Environment, i int) (err error) {
	if s := &a.rollout[i]; !s.last {
		if s.beyond, err = env.Value(); err != nil {
			return err
		}
		s.last = true
		env.Truncate()
	}
	return env.Begin()
}

// place makes the rollout's placement i: the policy's, or the teacher's.
func (a *agent) place(env *run.Environment, i, step int) error {
	s, phase := &a.rollout[i], a.config.phase(step)
	share := 0.0
	if phase == cloning {
		share = a.config.TeacherShare(step)
	}
	env.Observe()
	out, err := env.Score()
	if err != nil {
		return err
	}
	s.state, s.value, s.teacher, s.beyond = env.CopyState(), float64(out.Value), -1, 0
	s.action, s.log = policy.Sample(a.envs.Rand, out.Scores)
	if share > 0 || phase == improving && a.config.Imitation.Coefficient > 0 {
		if s.teacher, err = env.TeacherChoice(); err != nil {
			return err
		}
		if a.envs.Rand.Float64() < share {
			s.action = s.teacher
		}
	}
	s.reward, s.last = env.Step(s.action)
	return nil
}

// Phase implements run.Agent.
func (a *agent) Phase(step int) (name, loss string) {
	phase := a.config.phase(step)
	return phaseNames[phase], [...]string{tagCloning, tagValueLoss, tagPolicyLoss}[phase]
}

// State implements run.Agent.
func (a *agent) State() ([]any, error) {
	l, err := a.Export()
	return []any{l}, err
}

// Restore implements run.Agent.
func (a *agent) Restore(read func(into ...any) error) error {
	var l torch.TraineeState
	if err := read(&l); err != nil {
		return err
	}
	return a.Import(l)
}
