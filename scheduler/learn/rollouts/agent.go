//go:build torch

package rollouts

import (
	"math"
	"runtime"

	"golang.org/x/sync/errgroup"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/gnn/torch"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy"
)

// agent plays in several environments side by side, and learns from what its candidates would lead to.
type agent struct {
	*learner
	envs     *run.Environments
	memory   memory
	scale    scale           // of the worths in memory
	taught   scale           // of the teacher's scores
	rollouts []*eval.Rollout // by environment
	imitated bool            // the last round learned the teacher's scores
}

var _ run.Method = Config{}

// Layout implements run.Method.
func (c Config) Layout() run.Layout { return run.Layout{Count: c.Envs, Group: 1, All: true} }

// NewAgent implements run.Method.
func (c Config) NewAgent(s run.Settings, e *run.Environments, start *checkpoint.Checkpoint) (run.Agent, error) {
	l, err := newLearner(settings{s, c}, start)
	if err != nil {
		return nil, err
	}
	a := &agent{learner: l, envs: e, memory: memory{limit: c.Memory}}
	for range c.Envs {
		a.rollouts = append(a.rollouts, &eval.Rollout{Horizon: c.Horizon, WaitCost: c.WaitPlacements})
	}
	return a, nil
}

// Round implements run.Agent: every environment plays up to a decision that is learned from.
func (a *agent) Round(step, _ int) (int, error) {
	imitates := a.config.imitates(step)
	if a.imitated && !imitates { // the teacher's scores have another unit, and say nothing more
		a.memory.clear()
		a.scale, a.taught = scale{}, a.scale
	}
	a.imitated = imitates
	for _, env := range a.envs.All {
		for range a.config.Every - 1 {
			if err := a.place(env, step, nil); err != nil {
				return 0, err
			}
		}
	}
	samples, err := a.samples(imitates)
	if err != nil {
		return 0, err
	}
	for i, env := range a.envs.All {
		if err := a.place(env, step, &samples[i]); err != nil {
			return 0, err
		}
	}
	return len(a.envs.All) * a.config.Every, a.learn(step)
}

// place places the pod at hand as the network or, in imitation, as the teacher says. It keeps the sample.
func (a *agent) place(env *run.Environment, step int, keep *sample) (err error) {
	var choice int
	if share := a.config.TeacherShare(step); share > 0 && a.envs.Rand.Float64() < share {
		choice, err = env.TeacherChoice()
	} else {
		env.Observe()
		var out infer.Output
		if out, err = env.Score(); err == nil {
			env.Mask(out.Scores)
			choice = policy.Best(out.Scores)
		}
	}
	if err != nil {
		return err
	}
	if keep != nil && len(keep.Tried) > 1 {
		a.memory.add(*keep)
	}
	if _, last := env.Step(choice); last {
		return env.Begin()
	}
	return nil
}

// samples returns what there is to learn from the decision at hand in each environment.
func (a *agent) samples(imitates bool) ([]sample, error) {
	out := make([]sample, len(a.envs.All))
	own := make([][]float64, len(out)) // the network's scores of the candidates that are tried
	for i, env := range a.envs.All {
		env.Observe()
		out[i].State = env.CopyState()
		scores, err := env.Score()
		if err != nil {
			return nil, err
		}
		if imitates {
			if out[i].Worth, err = taught(env); err != nil {
				return nil, err
			}
			for c := range out[i].Worth {
				out[i].Tried = append(out[i].Tried, int32(c))
			}
			continue
		}
		if a.anchored() {
			if out[i].Taught, err = taught(env); err != nil {
				return nil, err
			}
		}
		env.Mask(scores.Scores)
		out[i].Tried = a.choose(scores.Scores)
		for _, c := range out[i].Tried {
			own[i] = append(own[i], float64(scores.Scores[c]))
		}
	}
	if imitates {
		own = make([][]float64, len(out))
	} else if err := a.try(out); err != nil {
		return nil, err
	}
	for i := range out {
		a.observe(&out[i], own[i])
	}
	return out, nil
}

// anchored tells whether the teacher's scores of all candidates are learned beside the rollouts.
func (a *agent) anchored() bool { return a.config.Anchor > 0 && a.taught.known() }

// taught returns the teacher's scores of all candidates.
func taught(env *run.Environment) (out []float64, err error) {
	scores, err := env.TeacherScores()
	for _, v := range scores {
		out = append(out, float64(v))
	}
	return out, err
}

// choose returns the candidates to try: those with the best scores, and random ones. None has the score
// minus infinity.
func (a *agent) choose(scores []float32) (tried []int32) {
	chosen := map[int]bool{}
	add := func(i int) {
		if !chosen[i] {
			chosen[i] = true
			tried = append(tried, int32(i))
		}
	}
	for _, i := range eval.BestRollouts(scores, a.config.Candidates-a.config.Random) {
		add(i)
	}
	var all []int
	for i, v := range scores {
		if !math.IsInf(float64(v), -1) {
			all = append(all, i)
		}
	}
	for range a.config.Random {
		add(all[a.envs.Rand.IntN(len(all))])
	}
	return tried
}

// try plays the rollouts of all samples.
func (a *agent) try(samples []sample) error {
	tried := make([][]int32, len(samples))
	for i, s := range samples {
		if len(s.Tried) > 1 {
			tried[i] = s.Tried
		}
	}
	play := a.here
	if a.envs.Elsewhere != nil {
		play = a.elsewhere
	}
	costs, err := play(tried)
	for i, of := range costs {
		for _, cost := range of {
			samples[i].Worth = append(samples[i].Worth, -cost)
		}
	}
	return err
}

// here plays rollouts on all processors, and returns what they cost.
func (a *agent) here(tried [][]int32) ([][]float64, error) {
	costs := make([][]float64, len(tried))
	var work errgroup.Group
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i := range tried {
		work.Go(func() (err error) {
			costs[i], err = a.envs.All[i].Costs(a.rollouts[i], tried[i])
			return err
		})
	}
	return costs, work.Wait()
}

// elsewhere lets other processes play the same rollouts.
func (a *agent) elsewhere(tried [][]int32) ([][]float64, error) {
	return a.envs.Elsewhere.Costs(a.envs.Rollouts(tried, a.config.Horizon, a.config.WaitPlacements))
}

// observe takes a sample into the figures and the scale.
func (a *agent) observe(s *sample, own []float64) {
	if len(s.Tried) < 2 {
		return
	}
	worths := centred(s.Worth)
	if own != nil {
		best := 0
		var square float64
		for i, w := range worths {
			square += w * w / float64(len(worths))
			if w > worths[best] {
				best = i
			}
		}
		a.envs.Figures.Add(tagSpread, square)
		a.envs.Figures.Add(tagAgreement, map[bool]float64{true: 1}[best == 0])
		own = centred(own)
	}
	if a.config.Scale == byDecision {
		s.even()
		worths = centred(s.Worth)
	}
	a.scale.observe(worths, own)
}

// learn takes the updates of a round.
func (a *agent) learn(step int) error {
	if len(a.memory.Samples) < a.config.BatchSize || !a.scale.known() {
		return nil
	}
	f := a.envs.Figures
	for range a.config.Updates {
		loss, norm, err := a.update(a.memory.draw(a.envs.Rand, a.config.BatchSize), units{a.scale, a.taught}, step)
		if err != nil {
			return err
		}
		f.Add(tagLoss, loss)
		f.Add(run.TagNorm, norm)
	}
	f.Add(run.TagLearningRate, a.config.LearningRateAt(step))
	return nil
}

// Checkpoint implements run.Agent.
func (a *agent) Checkpoint() (*checkpoint.Checkpoint, error) { return a.Slow.Checkpoint() }

// Phase implements run.Agent.
func (a *agent) Phase(step int) (name, loss string) {
	if a.config.imitates(step) {
		return "imitation", tagLoss
	}
	return "rollouts", tagLoss
}

// agentState is the agent's part of a state file, besides the learner's. The field names are the file's.
type agentState struct {
	Memory        memory
	Scale, Taught scale
	Imitated      bool
}

// State implements run.Agent.
func (a *agent) State() ([]any, error) {
	l, err := a.Export()
	return []any{l, agentState{a.memory, a.scale, a.taught, a.imitated}}, err
}

// Restore implements run.Agent.
func (a *agent) Restore(read func(into ...any) error) error {
	var l torch.TraineeState
	var in agentState
	if err := read(&l, &in); err != nil {
		return err
	}
	a.memory.Samples, a.memory.Next = in.Memory.Samples, in.Memory.Next
	a.scale, a.taught, a.imitated = in.Scale, in.Taught, in.Imitated
	return a.Import(l)
}

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
