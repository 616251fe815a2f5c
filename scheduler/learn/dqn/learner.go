//go:build torch

package dqn

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/torch"
	"gnnsched/scheduler/learn/online"
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

// syncEvery is how many updates the acting network may lag behind the learning one.
const syncEvery = 16

// agent acts in one environment and learns from a memory of its transitions.
type agent struct {
	*learner
	envs   *run.Environments
	memory *memory
	queue  nStep
}

var _ run.Method = Config{}

// Layout implements run.Method: the agent acts in one environment.
func (Config) Layout() run.Layout { return run.Layout{Count: 1, Group: 1} }

// NewAgent implements run.Method.
func (c Config) NewAgent(s run.Settings, e *run.Environments, start *checkpoint.Checkpoint) (run.Agent, error) {
	l, err := newLearner(settings{s, c}, start)
	if err != nil {
		return nil, err
	}
	return &agent{learner: l, envs: e, memory: newMemory(c), queue: nStep{n: c.NStep, gamma: s.Discount()}}, nil
}

// Round implements run.Agent.
func (a *agent) Round(step, limit int) (int, error) {
	every := a.config.UpdateFrequency
	placed := min(syncEvery*every, limit)
	enough := max(a.config.BatchSize, a.config.ReplayBufferSize/20)
	for i := range placed {
		if err := a.place(step + i); err != nil {
			return 0, err
		}
		if (step+i+1)%every == 0 && a.memory.enough(enough) {
			if err := a.update(a.memory, a.envs.Rand, step+i+1, a.envs.Figures); err != nil {
				return 0, err
			}
		}
	}
	return placed, nil
}

// place makes one placement: the network's, the teacher's or a random one.
func (a *agent) place(step int) error {
	env := a.envs.All[0]
	env.Observe()
	state := pack(env.CopyState(), a.queue.latest())
	if t, ok := a.queue.ready(state); ok {
		a.memory.add(t)
	}
	action, teacher, err := a.choose(env, step)
	if err != nil {
		return err
	}
	a.queue.begin(state, action, teacher)
	reward, last := env.Step(action)
	a.queue.reward(reward)
	if last {
		a.queue.end(a.memory.add)
		return env.Begin()
	}
	return nil
}

// choose returns the action to take and the teacher's choice, which is -1 if the step needs none.
func (a *agent) choose(env *run.Environment, step int) (action, teacher int, err error) {
	share, epsilon := a.config.TeacherShare(step), a.config.epsilon(step)
	teacher = -1
	if a.config.marginWeight(step) > 0 || share > 0 {
		if teacher, err = env.TeacherChoice(); err != nil {
			return 0, 0, err
		}
	}
	a.envs.Figures.Add(run.TagEpsilon, epsilon*(1-share))
	a.envs.Figures.Add(tagTeacher, share)
	switch x := a.envs.Rand.Float64(); {
	case x < epsilon*(1-share):
		return a.envs.Rand.IntN(env.Candidates()), teacher, nil
	case share > 0 && a.envs.Rand.Float64() < share:
		return teacher, teacher, nil
	}
	out, err := env.Score()
	if err != nil {
		return 0, 0, err
	}
	return policy.Best(out.Scores), teacher, nil
}

// Phase implements run.Agent.
func (*agent) Phase(int) (name, loss string) { return "deep Q-learning", tagTDLoss }

// State implements run.Agent.
func (a *agent) State() ([]any, error) {
	l, err := a.Export()
	return []any{l, exportMemory(a.memory, a.queue)}, err
}

// Restore implements run.Agent.
func (a *agent) Restore(read func(into ...any) error) error {
	var l torch.TraineeState
	var m memoryState
	if err := read(&l, &m); err != nil {
		return err
	}
	if err := a.Import(l); err != nil {
		return err
	}
	return m.restore(a.memory, &a.queue)
}

// onlineLearner learns from the steps of running schedulers: it draws its batches from a memory of
// them.
type onlineLearner struct {
	*learner
	memory  *memory
	queues  map[string]*nStep // by actor
	rng     *rand.Rand
	groups  bool // whether the network reads the groups of running pods
	steps   int
	figures *run.Figures
}

var _ online.Method = Config{}

// NewLearner implements online.Method.
func (c Config) NewLearner(s run.Settings, start *checkpoint.Checkpoint, rng *rand.Rand, f *run.Figures) (online.Learner, error) {
	l, err := newLearner(settings{s, c}, start)
	if err != nil {
		return nil, err
	}
	groups := start.Manifest.Architecture.Encoder == checkpoint.GNN
	return &onlineLearner{learner: l, rng: rng, figures: f, memory: newMemory(c), queues: map[string]*nStep{}, groups: groups}, nil
}

// Take implements online.Learner.
func (o *onlineLearner) Take(s online.Step) (updates int, err error) {
	o.remember(s)
	o.steps++
	if o.steps%o.config.UpdateFrequency > 0 || !o.memory.enough(o.config.BatchSize) {
		return 0, nil
	}
	return 1, o.update(o.memory, o.rng, 0, o.figures)
}

// Forget implements online.Learner.
func (o *onlineLearner) Forget() { clear(o.queues) }

// remember adds the transition that a step completes. If the step before it is missing, the
// transitions that wait for their rewards are dropped: the rewards are not known.
func (o *onlineLearner) remember(s online.Step) {
	q := o.queues[s.Actor]
	var before *frame
	if q != nil {
		before = q.latest()
	}
	g := *s.State
	if !o.groups {
		g.Groups = make([]graph.Groups, g.Nodes())
	}
	state := pack(&g, before)
	if q == nil || !s.Contiguous {
		q = &nStep{n: o.config.NStep, gamma: o.config.Discount()}
		o.queues[s.Actor] = q
	} else {
		q.reward(s.Reward)
		if t, ok := q.ready(state); ok {
			o.memory.add(t)
		}
	}
	q.begin(state, s.Action, -1)
}

// Habits implements online.Learner: it learns from every network's steps. An update changes the network little, and saving it takes
// longer than the update.
func (*onlineLearner) Habits() online.Habits { return online.Habits{JudgeEvery: 16, Loss: tagTDLoss} }

// storedBytes limits the part of the memory that is stored, the latest transitions first. All of a large
// memory would take longer to write than a scheduler that stops waits.
const storedBytes = 256 << 20

// State implements online.Learner.
func (o *onlineLearner) State() ([]any, error) {
	l, err := o.Export()
	l.Weights = nil // they are the checkpoint's
	return []any{l, o.steps, exportMemory(o.memory.newest(storedBytes), nStep{})}, err
}

// Restore implements online.Learner.
func (o *onlineLearner) Restore(read func(into ...any) error) (transitions int, err error) {
	var l torch.TraineeState
	var m memoryState
	if err := read(&l, &o.steps, &m); err != nil {
		return 0, err
	}
	if err := m.restore(o.memory, &nStep{}); err != nil {
		return 0, err
	}
	return o.memory.size, o.Import(l)
}
