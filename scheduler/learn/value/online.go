//go:build torch

package value

import (
	"fmt"
	"math/rand/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/torch"
	"gnnsched/scheduler/learn/online"
	"gnnsched/scheduler/learn/run"
)

// onlineLearner learns from the steps of running schedulers.
type onlineLearner struct {
	*learner
	config  Online
	half    float64
	memory  memory
	windows map[string]*windows // by actor
	rng     *rand.Rand
	figures *run.Figures
	steps   int
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
		learner: l, config: o, half: s.HalfLife, memory: memory{limit: o.ReplayBytes},
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
	l, err := o.update(o.rng, batch, o.config.LearningRate, o.config.Averaging, false)
	o.figures.Add(tagValueLoss, l.value)
	return 1, err
}

// Forget implements online.Learner.
func (o *onlineLearner) Forget() { clear(o.windows) }

// pending returns the bytes of the snapshots that wait for their targets.
func (o *onlineLearner) pending() (sum int) {
	for _, w := range o.windows {
		sum += w.bytes()
	}
	return sum
}

// Habits implements online.Learner: the average moves slowly. The targets of every network's steps count, as long as they are in the
// memory.
func (*onlineLearner) Habits() online.Habits {
	return online.Habits{JudgeEvery: 64, Loss: tagValueLoss, Figures: []string{tagOnlineIdle, tagOnlineWaiting}}
}

// storedBytes limits the part of the memory that is stored, the latest snapshots first.
const storedBytes = 256 << 20

// State implements online.Learner. Snapshots that wait for their targets are not in it: what happens until the
// next trainer starts is not known. Nor is the average: it is the checkpoint's, which may be newer.
func (o *onlineLearner) State() ([]any, error) {
	l, err := o.Export()
	l.Slow = nil
	return []any{l, o.steps, o.memory.newest(storedBytes)}, err
}

// Restore implements online.Learner.
func (o *onlineLearner) Restore(read func(into ...any) error) (transitions int, err error) {
	var l torch.TraineeState
	var snapshots []snapshot
	if err := read(&l, &o.steps, &snapshots); err != nil {
		return 0, err
	}
	if len(snapshots) > 0 {
		if err := o.config.check(snapshots); err != nil {
			return 0, fmt.Errorf("snapshots: %w", err)
		}
	}
	for _, x := range snapshots {
		o.memory.add(x, 0)
	}
	return len(o.memory.snapshots), o.Import(l)
}
