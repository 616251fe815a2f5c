//go:build torch

package dqn

import (
	"math/rand/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/torch"
	"gnnsched/scheduler/learn/online"
	"gnnsched/scheduler/learn/run"
)

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
