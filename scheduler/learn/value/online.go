//go:build torch

package value

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/learn/online"
	"gnnsched/scheduler/learn/run"
)

// onlineLearner learns from the steps of running schedulers.
type onlineLearner struct {
	config  Online
	rate    float64
	half    float64
	learner *learner
	memory  memory
	windows map[string]*windows // by actor
	rng     *rand.Rand
	figures *run.Figures
	steps   int
	kept    learnerState // to revert to
}

var _ online.Method = Online{}

// The tags of the figures of online learning.
const (
	tagOnlineIdle    = "online/gpus_idle"
	tagOnlineWaiting = "online/gpus_waiting"
)

// NewLearner implements online.Method. Of the settings it takes learning rate, half-life and limit of the gradient.
func (o Online) NewLearner(s run.Settings, start *checkpoint.Checkpoint, rng *rand.Rand, f *run.Figures) (online.Learner, error) {
	o.LearningRate, o.ClipNorm = s.LearningRate, s.ClipNorm
	l, err := newLearner(o.Config, start)
	if err != nil {
		return nil, err
	}
	return &onlineLearner{
		config: o, rate: s.LearningRate, half: s.HalfLife, learner: l, memory: memory{limit: o.ReplayBytes},
		windows: map[string]*windows{}, rng: rng, figures: f,
	}, nil
}

// Take implements online.Learner.
func (o *onlineLearner) Take(s online.Step) (updates int, err error) {
	if all, idle := s.GPU.Devices(); all > 0 {
		o.figures.Add(tagOnlineIdle, idle/all)
		o.figures.Add(tagOnlineWaiting, s.GPU.Waiting/all)
	}
	if o.windows[s.Actor] == nil {
		o.windows[s.Actor] = &windows{halfLife: o.half}
	}
	for _, done := range o.windows[s.Actor].take(s.Step) {
		o.memory.add(done, o.pending())
	}
	o.steps++
	if o.steps%o.config.UpdateFrequency > 0 || len(o.memory.snapshots) < onlineSnapshots {
		return 0, nil
	}
	batch := make([]*snapshot, onlineSnapshots)
	o.memory.draw(o.rng, batch)
	l, err := o.learner.update(o.rng, batch, o.rate, o.config.Averaging, false)
	o.figures.Add(tagValueLoss, l.value)
	return 1, err
}

// pending returns the bytes of the snapshots that wait for their targets.
func (o *onlineLearner) pending() (sum int) {
	for _, w := range o.windows {
		sum += w.bytes()
	}
	return sum
}

// Checkpoint implements online.Learner. It is the average of the learning network.
func (o *onlineLearner) Checkpoint() (*checkpoint.Checkpoint, error) { return o.learner.checkpoint() }

// JudgeEvery implements online.Learner: the average moves slowly.
func (*onlineLearner) JudgeEvery() int { return 64 }

// Keep implements online.Learner.
func (o *onlineLearner) Keep(*checkpoint.Checkpoint) (err error) {
	o.kept, err = o.learner.export()
	return err
}

// Revert implements online.Learner.
func (o *onlineLearner) Revert() error { return o.learner.restore(o.kept) }

// Stale implements online.Learner: the targets of every network's steps count, as long as they are in the memory.
func (*onlineLearner) Stale() int { return 0 }

// LossTag implements online.Learner.
func (*onlineLearner) LossTag() string { return tagValueLoss }

// FigureTags implements online.Learner.
func (*onlineLearner) FigureTags() []string { return []string{tagOnlineIdle, tagOnlineWaiting} }

// Drop implements online.Learner.
func (o *onlineLearner) Drop() { o.learner.drop() }

// onlineState is the learner's part of a state file. The field names are the file's.
type onlineState struct {
	Learner   learnerState
	Steps     int
	Snapshots []snapshot
}

// storedBytes limits the part of the memory that is stored, the latest snapshots first.
const storedBytes = 256 << 20

// Save implements online.Learner. Snapshots that wait for their targets are not stored: what happens until the
// next trainer starts is not known.
func (o *onlineLearner) Save(path string, s online.State) error {
	l, err := o.learner.export()
	if err != nil {
		return err
	}
	return online.SaveState(path, s, onlineState{Learner: l, Steps: o.steps, Snapshots: o.memory.newest(storedBytes)})
}

// Restore implements online.Learner. The average stays the checkpoint's, which may be newer than the state.
func (o *onlineLearner) Restore(s *online.State) (transitions int, err error) {
	in, err := online.Memory[onlineState](s)
	if err != nil {
		return 0, err
	}
	if len(in.Snapshots) > 0 {
		if err := o.config.check(in.Snapshots); err != nil {
			return 0, fmt.Errorf("snapshots: %w", err)
		}
	}
	if len(in.Learner.Weights) == 0 {
		return 0, errors.New("the state has no weights")
	}
	if in.Learner.Average, err = o.learner.slow.Export(); err != nil {
		return 0, err
	}
	for _, x := range in.Snapshots {
		o.memory.add(x, 0)
	}
	o.steps = in.Steps
	return len(o.memory.snapshots), o.learner.restore(in.Learner)
}
