//go:build torch

package learn

import (
	"gnnsched/gnn/checkpoint"
)

// syncEvery is how many updates the acting network may lag behind the learning one.
const syncEvery = 16

// dqnAgent acts in one environment and learns from a memory of what it did.
type dqnAgent struct {
	*actors
	learner *DQN
	replay  *Replay
	queue   nStep
}

func newDQNAgent(a *actors, start *checkpoint.Checkpoint) (*dqnAgent, error) {
	d := &dqnAgent{
		actors: a, replay: NewReplay(a.config.DQN.ReplayBufferSize, a.config.DQN.PriorityExponent),
		queue: nStep{n: a.config.DQN.NStep, gamma: a.config.Gamma},
	}
	var err error
	if d.learner, err = NewDQN(a.config, start); err != nil {
		return nil, err
	}
	if err = d.begin(); err == nil {
		err = d.follow(start)
	}
	if err != nil {
		d.drop()
		return nil, err
	}
	return d, nil
}

func (d *dqnAgent) round(step, limit int) (int, error) {
	every := d.config.DQN.UpdateFrequency
	placed := min(syncEvery*every, limit)
	enough := max(d.config.BatchSize, d.config.DQN.ReplayBufferSize/20)
	for i := range placed {
		if err := d.place(step + i); err != nil {
			return 0, err
		}
		if (step+i+1)%every == 0 && d.replay.Len() >= enough {
			if err := d.update(step + i + 1); err != nil {
				return 0, err
			}
		}
	}
	c, err := d.checkpoint()
	if err != nil {
		return 0, err
	}
	return placed, d.follow(c)
}

func (d *dqnAgent) update(step int) error {
	u, err := d.learner.Update(d.replay, d.rng, step)
	if err != nil {
		return err
	}
	f := d.figures
	f.add(TagTDLoss, u.Loss)
	f.add(TagNorm, u.Norm)
	f.add(TagQ, u.Q)
	if u.Margin > 0 {
		f.add(TagMargin, u.Margin)
	}
	f.add(TagLearningRate, d.config.learningRate(step))
	return nil
}

// place makes one placement: the network's, the teacher's or a random one.
func (d *dqnAgent) place(step int) error {
	w := d.walkers[0]
	w.look()
	state := w.copy()
	if t, ok := d.queue.ready(state); ok {
		d.replay.Add(t)
	}
	action, teacher, err := d.choose(w, step)
	if err != nil {
		return err
	}
	d.queue.begin(state, action, teacher)
	reward, row, last := w.step(action)
	d.acted(row)
	d.queue.reward(reward)
	if last {
		d.queue.end(d.replay.Add)
		return w.begin()
	}
	return nil
}

// choose returns what to do, and what the teacher would do; -1 where nobody asked.
func (d *dqnAgent) choose(w *walker, step int) (action, teacher int, err error) {
	part, epsilon := d.config.imitation(step), d.config.epsilon(step)
	teacher = -1
	if d.config.marginWeight(step) > 0 || part > 0 {
		if teacher, err = w.ask(); err != nil {
			return 0, 0, err
		}
	}
	d.figures.add(TagEpsilon, epsilon*(1-part))
	d.figures.add(TagTeacher, part)
	switch x := d.rng.Float64(); {
	case x < epsilon*(1-part):
		return d.rng.IntN(len(w.env.Candidates())), teacher, nil
	case part > 0 && d.rng.Float64() < part:
		return teacher, teacher, nil
	}
	out, err := w.judge()
	if err != nil {
		return 0, 0, err
	}
	return argmax(out.Scores), teacher, nil
}

func (d *dqnAgent) checkpoint() (*checkpoint.Checkpoint, error) { return d.learner.Checkpoint() }

func (d *dqnAgent) loss(int) string { return TagTDLoss }

func (d *dqnAgent) phase(int) string { return "deep Q-learning" }

func (d *dqnAgent) drop() { d.learner.Drop() }

func (d *dqnAgent) export() (s agentState, err error) {
	if s.Actors, err = d.exportActors(); err != nil {
		return s, err
	}
	l := d.learner
	s.Moments, s.Updates = l.adam.Export(), l.updates
	s.Replay = exportReplay(d.replay, d.queue)
	if s.Weights, err = l.online.Export(); err != nil {
		return s, err
	}
	s.Target, err = l.target.Export()
	return s, err
}

func (d *dqnAgent) restore(s agentState) error {
	l := d.learner
	if err := l.online.Import(s.Weights); err != nil {
		return err
	}
	if err := l.target.Import(s.Target); err != nil {
		return err
	}
	if err := l.adam.Import(s.Moments); err != nil {
		return err
	}
	l.updates = s.Updates
	if err := s.Replay.restore(d.replay, &d.queue); err != nil {
		return err
	}
	if err := d.restoreActors(s.Actors); err != nil {
		return err
	}
	c, err := d.checkpoint()
	if err != nil {
		return err
	}
	return d.follow(c)
}
