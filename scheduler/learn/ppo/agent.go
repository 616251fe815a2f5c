//go:build torch

package ppo

import (
	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/torch"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy"
)

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
