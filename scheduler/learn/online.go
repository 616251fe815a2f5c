//go:build torch

package learn

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"runtime"

	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/online"
)

// saveEvery is how many updates the scheduler's network may lag behind the learning one.
const saveEvery = 16

// Online goes on with a DQN's training on what a scheduler at work does.
type Online struct {
	Config   Config                             // of OnlineConfig; its schedules stand still
	Save     func(*checkpoint.Checkpoint) error // gets the network every saveEvery updates, and at the end
	Progress func(OnlineProgress)               // called after every Save; may be nil

	start   *checkpoint.Checkpoint
	dqn     *DQN
	replay  *Replay
	rng     *rand.Rand
	queue   nStep
	last    online.Step // the one before
	steps   int
	lost    int
	updates int
	unsaved int // updates since the last Save

	losses, norms, rewards mean
}

// OnlineProgress is how far online learning is.
type OnlineProgress struct {
	Steps, Updates int
	Lost           int     // steps that are missing in the stream
	Loss, Norm     float64 // means since the last report
	Reward         float64
}

// OnlineConfig is the configuration that c was trained with, or the default where c does not
// say, without a teacher and with the learning rate that a run ends with.
func OnlineConfig(c *checkpoint.Checkpoint) (Config, error) {
	cfg := DefaultConfig()
	if len(c.Manifest.Config) > 0 {
		if err := json.Unmarshal(c.Manifest.Config, &cfg); err != nil {
			return cfg, fmt.Errorf("training configuration in the checkpoint: %w", err)
		}
	}
	a := c.Manifest.Architecture
	if a.Head != checkpoint.DQN {
		return cfg, fmt.Errorf("a network with the head %q does not learn online, only %q does", a.Head, checkpoint.DQN)
	}
	cfg.Variant, cfg.Hidden, cfg.Imitation.Share = "dqn", a.Hidden, 0
	if a.Encoder == checkpoint.GNN {
		cfg.Variant = "gnn"
	}
	cfg.LearningRate = cfg.learningRate(cfg.Steps)
	return cfg, nil
}

// Learn learns from the stream until that ends, starting from the weights of c. What was
// learned is saved even where it ends with an error.
func (o *Online) Learn(r *online.Reader, c *checkpoint.Checkpoint) (err error) {
	runtime.LockOSThread() // as in Train
	defer runtime.UnlockOSThread()
	if err := o.Config.Validate(); err != nil {
		return fmt.Errorf("training configuration: %w", err)
	}
	if o.dqn, err = NewDQN(o.Config, c); err != nil {
		return err
	}
	defer o.dqn.Drop()
	o.start, o.rng = c, rand.New(rand.NewPCG(o.Config.Seed, 0x6f6e6c696e65))
	o.replay, o.queue = NewReplay(o.Config.DQN.ReplayBufferSize, o.Config.DQN.PriorityExponent), nStep{n: o.Config.DQN.NStep, gamma: o.Config.Gamma}
	for err == nil {
		var s online.Step
		if s, err = r.Read(); err == nil {
			err = o.take(s)
		}
	}
	if err == io.EOF { //nolint:errorlint // the bare one is the good end
		err = nil
	}
	if o.unsaved > 0 {
		err = errors.Join(err, o.save())
	}
	return err
}

// take learns from one step.
func (o *Online) take(s online.Step) error {
	switch follows := s.Number == o.last.Number+1; {
	case o.steps == 0:
	case follows:
		r := o.Config.Reward.of(o.last, s, o.Config.Gamma)
		o.rewards.add(r)
		o.queue.reward(r)
		if t, ok := o.queue.ready(s.State); ok {
			o.replay.Add(t)
		}
	default:
		o.lost += int(s.Number - o.last.Number - 1)
		o.queue = nStep{n: o.queue.n, gamma: o.queue.gamma} // nobody knows what came of the waiting ones
	}
	o.last = s
	o.queue.begin(s.State, s.Action, -1)
	o.steps++
	if o.steps%o.Config.DQN.UpdateFrequency > 0 || o.replay.Len() < o.Config.BatchSize {
		return nil
	}
	return o.update()
}

func (o *Online) update() error {
	u, err := o.dqn.Update(o.replay, o.rng, 0)
	if err != nil {
		return err
	}
	o.losses.add(u.Loss)
	o.norms.add(u.Norm)
	o.updates++
	if o.unsaved++; o.unsaved < saveEvery {
		return nil
	}
	return o.save()
}

// save hands the network on, with the figures of its earlier training and of all online
// learning so far.
func (o *Online) save() error {
	o.unsaved = 0
	c, err := o.dqn.Checkpoint()
	if err != nil {
		return err
	}
	was := o.start.Manifest.Training
	training := map[string]float64{}
	maps.Copy(training, was)
	training["onlineSteps"], training["onlineUpdates"] = was["onlineSteps"]+float64(o.steps), was["onlineUpdates"]+float64(o.updates)
	c.Manifest.Training = training
	if err := o.Save(c); err != nil {
		return err
	}
	if o.Progress != nil {
		o.Progress(OnlineProgress{Steps: o.steps, Updates: o.updates, Lost: o.lost, Loss: o.losses.take(), Norm: o.norms.take(), Reward: o.rewards.take()})
	}
	return nil
}
