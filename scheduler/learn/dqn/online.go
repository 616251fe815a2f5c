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
	config  settings
	learner *learner
	memory  *memory
	queues  map[string]*nStep // by actor
	rng     *rand.Rand
	groups  bool // whether the network reads the groups of running pods
	steps   int
	kept    learnerState // to revert to
	figures *run.Figures
}

var _ online.Method = Config{}

// NewLearner implements online.Method.
func (c Config) NewLearner(s run.Settings, start *checkpoint.Checkpoint, rng *rand.Rand, f *run.Figures) (online.Learner, error) {
	o := &onlineLearner{config: settings{s, c}, rng: rng, figures: f, memory: newMemory(c), queues: map[string]*nStep{}, groups: start.Manifest.Architecture.Encoder == checkpoint.GNN}
	var err error
	if o.learner, err = newLearner(o.config, start); err != nil {
		return nil, err
	}
	return o, nil
}

// Take implements online.Learner.
func (o *onlineLearner) Take(s online.Step) (updates int, err error) {
	o.remember(s)
	o.steps++
	if o.steps%o.config.UpdateFrequency > 0 || !o.memory.enough(o.config.BatchSize) {
		return 0, nil
	}
	u, err := o.learner.update(o.memory, o.rng, 0)
	o.figures.Add(tagTDLoss, u.loss)
	o.figures.Add(run.TagNorm, u.norm)
	return 1, err
}

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

// Checkpoint implements online.Learner.
func (o *onlineLearner) Checkpoint() (*checkpoint.Checkpoint, error) { return o.learner.checkpoint() }

// JudgeEvery implements online.Learner: an update changes the network little, and saving it takes
// longer than the update.
func (*onlineLearner) JudgeEvery() int { return 16 }

// Keep implements online.Learner.
func (o *onlineLearner) Keep(*checkpoint.Checkpoint) (err error) {
	o.kept, err = o.learner.export()
	return err
}

// Revert implements online.Learner.
func (o *onlineLearner) Revert() error { return o.learner.restore(o.kept) }

// Stale implements online.Learner: Q-learning learns from every network's steps.
func (*onlineLearner) Stale() int { return 0 }

// LossTag implements online.Learner.
func (*onlineLearner) LossTag() string { return tagTDLoss }

// FigureTags implements online.Learner.
func (*onlineLearner) FigureTags() []string { return nil }

// Drop implements online.Learner.
func (o *onlineLearner) Drop() { o.learner.drop() }

// onlineState is the learner's part of a state file. The field names are the file's.
type onlineState struct {
	Moments        []torch.Moments
	Target         []torch.Array
	Steps, Updates int
	Replay         memoryState
}

// storedBytes limits the part of the memory that is stored, the latest transitions first. All of a large
// memory would take longer to write than a scheduler that stops waits.
const storedBytes = 256 << 20

// Save implements online.Learner.
func (o *onlineLearner) Save(path string, s online.State) error {
	l, err := o.learner.exportOptimiser()
	if err != nil {
		return err
	}
	return online.SaveState(path, s, onlineState{
		Moments: l.moments, Target: l.target, Steps: o.steps, Updates: l.updates,
		Replay: exportMemory(o.memory.newest(storedBytes), nStep{}),
	})
}

// Restore implements online.Learner.
func (o *onlineLearner) Restore(s *online.State) (transitions int, err error) {
	in, err := online.Memory[onlineState](s)
	if err != nil {
		return 0, err
	}
	if err := in.Replay.restore(o.memory, &nStep{}); err != nil {
		return 0, err
	}
	o.steps = in.Steps
	return o.memory.size, o.learner.restoreOptimiser(optimiserState{in.Target, in.Moments, in.Updates})
}
