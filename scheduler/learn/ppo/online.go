//go:build torch

package ppo

import (
	"fmt"
	"math/rand/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/gnn/torch"
	"gnnsched/scheduler/learn/online"
	"gnnsched/scheduler/learn/run"
)

// onlineLearner learns from rollouts of steps of running schedulers. A rollout consists of steps that
// the latest network made. The steps of others, such as those that a scheduler makes before it
// has loaded the latest network, are left out.
type onlineLearner struct {
	*learner
	rng     *rand.Rand
	figures *run.Figures

	trajectories []*trajectory // of the rollout, by actor in the order in which they appeared
	complete     int           // steps in them

	acting uint64 // fingerprint of the network that was kept last
	stale  int    // steps that were left out
}

// trajectory holds an actor's part of a rollout. A step's after is set if the next step in it is not the one that followed.
type trajectory struct {
	actor string
	steps rollout // with their rewards
	open  *step   // the latest, which waits for its reward; nil for none
}

// end ends a stretch of steps that follow one another. state is the state after it.
func (t *trajectory) end(state *graph.Graph) {
	if n := len(t.steps); n > 0 && t.steps[n-1].after == nil {
		t.steps[n-1].after = state
	}
}

var _ online.Method = Config{}

// NewLearner implements online.Method.
func (c Config) NewLearner(s run.Settings, start *checkpoint.Checkpoint, rng *rand.Rand, f *run.Figures) (online.Learner, error) {
	l, err := newLearner(settings{s, c}, start)
	if err != nil {
		return nil, err
	}
	return &onlineLearner{learner: l, rng: rng, figures: f}, nil
}

// trajectory returns the actor's part of the rollout.
func (o *onlineLearner) trajectory(actor string) *trajectory {
	for _, t := range o.trajectories {
		if t.actor == actor {
			return t
		}
	}
	t := &trajectory{actor: actor}
	o.trajectories = append(o.trajectories, t)
	return t
}

// Forget implements online.Learner.
func (o *onlineLearner) Forget() { o.trajectories, o.complete = nil, 0 }

// Take implements online.Learner.
func (o *onlineLearner) Take(s online.Step) (updates int, err error) {
	t := o.trajectory(s.Actor)
	switch {
	case t.open != nil && s.Contiguous:
		t.open.reward = s.Reward
		t.steps = append(t.steps, *t.open)
		o.complete++
	case t.open != nil: // its reward is lost, but its state is the one after the step before it
		t.end(t.open.state)
	}
	t.open = nil
	if o.complete == o.config.Rollout {
		t.end(s.State)
		if err := o.learn(); err != nil {
			return 0, err
		}
		o.stale++ // the network before the update chose this step
		return 1, nil
	}
	if s.Overruled { // its probability is not known
		t.end(s.State)
		return 0, nil
	}
	if s.Network != o.acting {
		t.end(s.State)
		o.stale++
		return 0, nil
	}
	t.open = &step{state: s.State, action: s.Action, log: float32(s.Log), teacher: -1}
	return 0, nil
}

// learn learns from the trajectories and begins the next rollout.
func (o *onlineLearner) learn() error {
	r, err := o.rollout()
	if err != nil {
		return err
	}
	r.estimate([]float64{0}, o.config.Discount(), o.config.Lambda) // every trajectory's last step has its state after it
	o.trajectories, o.complete = nil, 0
	return o.update(r, o.rng, 0, o.figures)
}

// rollout puts the trajectories one after another, with the values of their states.
func (o *onlineLearner) rollout() (r rollout, err error) {
	value, err := o.values()
	if err != nil {
		return nil, err
	}
	for _, t := range o.trajectories {
		if t.open != nil { // the network that chose it is about to change
			t.end(t.open.state)
			o.stale++
		}
		for _, s := range t.steps {
			if s.value, err = value(s.state); err != nil {
				return nil, err
			}
			if s.last = s.after != nil; s.last {
				if s.beyond, err = value(s.after); err != nil {
					return nil, err
				}
			}
			r = append(r, s)
		}
	}
	return r, nil
}

// values returns the present network's value of a state, as a function.
func (o *onlineLearner) values() (func(*graph.Graph) (float64, error), error) {
	c, err := o.Checkpoint()
	if err != nil {
		return nil, err
	}
	net, err := infer.New(c)
	if err != nil {
		return nil, fmt.Errorf("the weights went wrong, lower the learning rate: %w", err)
	}
	session := net.NewSession()
	return func(g *graph.Graph) (float64, error) {
		out, err := session.Score(g, nil)
		return float64(out.Value), err
	}, nil
}

// Habits implements online.Learner: the next rollout must come from the updated network.
func (o *onlineLearner) Habits() online.Habits {
	figures := []string{tagValueLoss, tagEntropy, tagKL, tagClipped, tagExplained}
	return online.Habits{JudgeEvery: 1, Stale: o.stale, Loss: tagPolicyLoss, Figures: figures}
}

// Keep implements online.Learner.
func (o *onlineLearner) Keep() error {
	c, err := o.Checkpoint()
	if err != nil {
		return err
	}
	o.acting = c.Fingerprint()
	return o.Trainee.Keep()
}

// State implements online.Learner. The rollout is not in it: after a restart it would be another network's.
func (o *onlineLearner) State() ([]any, error) {
	l, err := o.Export()
	l.Weights = nil // they are the checkpoint's
	return []any{l}, err
}

// Restore implements online.Learner.
func (o *onlineLearner) Restore(read func(into ...any) error) (transitions int, err error) {
	var l torch.TraineeState
	if err := read(&l); err != nil {
		return 0, err
	}
	return 0, o.Import(l)
}
