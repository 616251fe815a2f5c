//go:build torch

package dqn

import (
	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/torch"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy"
)

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
