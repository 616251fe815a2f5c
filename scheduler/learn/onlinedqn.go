//go:build torch

package learn

import (
	"math/rand/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/experience"
)

// onlineDQN is deep Q-learning on a stream, from a memory of the steps.
type onlineDQN struct {
	config  Config
	dqn     *DQN
	replay  *Replay
	queue   nStep
	rng     *rand.Rand
	steps   int
	kept    agentState
	figures *figures
}

func newOnlineDQN(config Config, c *checkpoint.Checkpoint, rng *rand.Rand, f *figures) (*onlineDQN, error) {
	d := &onlineDQN{config: config, rng: rng, figures: f, replay: NewReplay(config.DQN.ReplayBufferSize, config.DQN.PriorityExponent)}
	d.forget()
	var err error
	d.dqn, err = NewDQN(config, c)
	return d, err
}

// forget drops the transitions that wait for their rewards: nobody knows what came of them.
func (d *onlineDQN) forget() { d.queue = nStep{n: d.config.DQN.NStep, gamma: d.config.Gamma} }

func (d *onlineDQN) take(s experience.Step, paid float64, follows bool) (updates int, err error) {
	if follows {
		d.queue.reward(paid)
		if t, ok := d.queue.ready(s.State); ok {
			d.replay.Add(t)
		}
	} else {
		d.forget()
	}
	d.queue.begin(s.State, s.Action, -1)
	d.steps++
	if d.steps%d.config.DQN.UpdateFrequency > 0 || d.replay.Len() < d.config.BatchSize {
		return 0, nil
	}
	u, err := d.dqn.Update(d.replay, d.rng, 0)
	d.figures.add(TagTDLoss, u.Loss)
	d.figures.add(TagNorm, u.Norm)
	return 1, err
}

// every: the network changes little in an update, and saving it takes longer.
func (d *onlineDQN) every() int { return 16 }

func (d *onlineDQN) checkpoint() (*checkpoint.Checkpoint, error) { return d.dqn.Checkpoint() }

func (d *onlineDQN) keep(*checkpoint.Checkpoint) (err error) {
	d.kept.Moments, d.kept.Updates = d.dqn.adam.Export(), d.dqn.updates
	if d.kept.Weights, err = d.dqn.online.Export(); err == nil {
		d.kept.Target, err = d.dqn.target.Export()
	}
	return err
}

func (d *onlineDQN) revert() error {
	d.dqn.updates = d.kept.Updates
	if err := d.dqn.online.Import(d.kept.Weights); err != nil {
		return err
	}
	if err := d.dqn.target.Import(d.kept.Target); err != nil {
		return err
	}
	return d.dqn.adam.Import(d.kept.Moments)
}

func (d *onlineDQN) stale() int { return 0 }

func (d *onlineDQN) loss() string { return TagTDLoss }

func (d *onlineDQN) export() (m onlineMemory, err error) {
	m.Steps, m.Updates, m.Moments = d.steps, d.dqn.updates, d.dqn.adam.Export()
	m.Replay = exportReplay(d.replay.newest(storedBytes), nStep{})
	m.Target, err = d.dqn.target.Export()
	return m, err
}

// restore takes over another's memory; the weights are the checkpoint's.
func (d *onlineDQN) restore(m onlineMemory) error {
	if err := m.Replay.restore(d.replay, &nStep{}); err != nil {
		return err
	}
	if err := d.dqn.target.Import(m.Target); err != nil {
		return err
	}
	if err := d.dqn.adam.Import(m.Moments); err != nil {
		return err
	}
	d.steps, d.dqn.updates = m.Steps, m.Updates
	return nil
}

func (d *onlineDQN) drop() { d.dqn.Drop() }
