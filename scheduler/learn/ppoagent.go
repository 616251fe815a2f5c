//go:build torch

package learn

import (
	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/policy"
)

// ppoAgent acts in several environments side by side and learns from what all of them gave.
type ppoAgent struct {
	*actors
	learner *PPO
	rollout *rollout
	after   []float64 // values of the states after the rollout, by environment
}

func newPPOAgent(a *actors, start *checkpoint.Checkpoint) (*ppoAgent, error) {
	p := &ppoAgent{actors: a, rollout: newRollout(a.config.PPO.Envs * a.config.PPO.Rollout), after: make([]float64, a.config.PPO.Envs)}
	var err error
	if p.learner, err = NewPPO(a.config, start); err != nil {
		return nil, err
	}
	if err = p.begin(); err == nil {
		err = p.follow(start)
	}
	if err != nil {
		p.drop()
		return nil, err
	}
	return p, nil
}

func (p *ppoAgent) round(step, _ int) (int, error) {
	group := p.config.PPO.Group
	for e := 0; e < len(p.walkers); e += group {
		if err := p.walk(e, p.walkers[e:e+group], step); err != nil {
			return 0, err
		}
	}
	for e, w := range p.walkers {
		var err error
		if p.after[e], err = w.value(); err != nil {
			return 0, err
		}
	}
	r := p.rollout
	r.judge(p.after, p.config.Gamma, p.config.PPO.Lambda)
	r.compare(group, p.config.PPO.Rollout)
	p.figures.add(TagLearningRate, p.config.learningRate(step))
	if err := p.learner.update(r, p.rng, step, p.figures); err != nil {
		return 0, err
	}
	c, err := p.checkpoint()
	if err != nil {
		return 0, err
	}
	return len(r.states), p.follow(c)
}

// walk makes the placements of a rollout in a group of environments, the first of which has the
// number given. Where an episode ends in one of them, it is cut in the others: they stay together.
func (p *ppoAgent) walk(first int, group []*walker, step int) error {
	length, r := p.config.PPO.Rollout, p.rollout
	for t := range length {
		ended := false
		for e, w := range group {
			i := (first+e)*length + t
			if err := p.place(w, i, step); err != nil {
				return err
			}
			ended = ended || r.last[i]
		}
		for e, w := range group {
			if !ended {
				break
			}
			if err := p.leave(w, (first+e)*length+t); err != nil {
				return err
			}
		}
	}
	return nil
}

// leave goes on to the next episode after placement i, which is the last of this one.
func (p *ppoAgent) leave(w *walker, i int) (err error) {
	r := p.rollout
	if !r.last[i] {
		if r.beyond[i], err = w.value(); err != nil {
			return err
		}
		r.last[i] = true
		w.cut()
	}
	return w.begin()
}

// place makes the rollout's placement i: the policy's, or the teacher's.
func (p *ppoAgent) place(w *walker, i, step int) error {
	c, r := p.config, p.rollout
	part := 0.0
	if c.phase(step) == cloning {
		part = c.imitation(step)
	}
	w.look()
	out, err := w.judge()
	if err != nil {
		return err
	}
	r.states[i], r.values[i], r.teacher[i] = w.copy(), float64(out.Value), -1
	r.actions[i], r.logs[i] = policy.Sample(p.rng, out.Scores)
	if part > 0 || c.phase(step) == improving && c.Imitation.Coefficient > 0 {
		if r.teacher[i], err = w.ask(); err != nil {
			return err
		}
		if p.rng.Float64() < part {
			r.actions[i] = r.teacher[i]
		}
	}
	var row int32
	r.rewards[i], row, r.last[i] = w.step(r.actions[i])
	r.beyond[i] = 0
	p.acted(row)
	return nil
}

func (p *ppoAgent) checkpoint() (*checkpoint.Checkpoint, error) { return p.learner.net.Checkpoint() }

func (p *ppoAgent) loss(step int) string {
	return [...]string{TagCloning, TagValueLoss, TagPolicyLoss}[p.config.phase(step)]
}

func (p *ppoAgent) phase(step int) string { return phaseNames[p.config.phase(step)] }

func (p *ppoAgent) drop() { p.learner.net.Drop() }

func (p *ppoAgent) export() (s agentState, err error) {
	if s.Actors, err = p.exportActors(); err != nil {
		return s, err
	}
	s.Moments = p.learner.adam.Export()
	s.Weights, err = p.learner.net.Export()
	return s, err
}

func (p *ppoAgent) restore(s agentState) error {
	if err := p.learner.net.Import(s.Weights); err != nil {
		return err
	}
	if err := p.learner.adam.Import(s.Moments); err != nil {
		return err
	}
	if err := p.restoreActors(s.Actors); err != nil {
		return err
	}
	c, err := p.checkpoint()
	if err != nil {
		return err
	}
	return p.follow(c)
}
