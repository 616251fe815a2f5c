//go:build torch

package learn

import (
	"fmt"
	"math/rand/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/gnn/torch"
	"gnnsched/scheduler/experience"
)

// onlinePPO is PPO on a stream: rollouts of steps that the network now learning has made. Those
// that another made, the one before while the scheduler has not loaded this one, are left out.
type onlinePPO struct {
	config  Config
	ppo     *PPO
	rng     *rand.Rand
	figures *figures

	rollout *rollout
	filled  int                  // steps of the rollout whose reward is known
	open    bool                 // the step after them waits for its reward
	cut     map[int]*graph.Graph // what followed a step that nothing of the rollout follows

	acting  uint64 // fingerprint of the network that the rollout is of
	strange int    // steps of others
	weights []torch.Array
	moments []torch.Moments
}

func newOnlinePPO(config Config, c *checkpoint.Checkpoint, rng *rand.Rand, f *figures) (*onlinePPO, error) {
	p := &onlinePPO{config: config, rng: rng, figures: f}
	p.begin()
	var err error
	p.ppo, err = NewPPO(config, c)
	return p, err
}

// begin begins a rollout.
func (p *onlinePPO) begin() {
	p.rollout, p.filled, p.open, p.cut = newRollout(p.config.PPO.Rollout), 0, false, map[int]*graph.Graph{}
	for i := range p.rollout.teacher {
		p.rollout.teacher[i] = -1
	}
}

func (p *onlinePPO) take(s experience.Step, paid float64, follows bool) (updates int, err error) {
	r := p.rollout
	switch {
	case p.open && follows:
		r.rewards[p.filled] = paid
		p.filled++
	case p.open: // nobody knows what came of it, but it is what came of the one before
		p.end(r.states[p.filled])
	}
	p.open = false
	if p.filled == len(r.states) {
		if err := p.learn(s.State); err != nil {
			return 0, err
		}
		p.strange++ // this step is the last network's choice, and the scheduler's next ones may be
		return 1, nil
	}
	if s.Network != p.acting {
		p.end(s.State)
		p.strange++
		return 0, nil
	}
	r.states[p.filled], r.actions[p.filled], r.logs[p.filled] = s.State, s.Action, float32(s.Log)
	p.open = true
	return 0, nil
}

// end ends a stretch of steps that follow each other, which state came after.
func (p *onlinePPO) end(after *graph.Graph) {
	if last := p.filled - 1; last >= 0 && !p.rollout.last[last] {
		p.rollout.last[last], p.cut[last] = true, after
	}
}

// learn learns from the rollout, which after follows, and begins another.
func (p *onlinePPO) learn(after *graph.Graph) error {
	values, err := p.values()
	if err != nil {
		return err
	}
	r := p.rollout
	for i, g := range r.states {
		if r.values[i], err = values(g); err != nil {
			return err
		}
	}
	for i, g := range p.cut {
		if r.beyond[i], err = values(g); err != nil {
			return err
		}
	}
	last, err := values(after)
	if err != nil {
		return err
	}
	r.judge([]float64{last}, p.config.Gamma, p.config.PPO.Lambda)
	p.begin()
	return p.ppo.update(r, p.rng, 0, p.figures)
}

// values gives what the network as it is takes states to be worth.
func (p *onlinePPO) values() (func(*graph.Graph) (float64, error), error) {
	c, err := p.checkpoint()
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

// every: what a rollout has taught is the next one's network.
func (p *onlinePPO) every() int { return 1 }

func (p *onlinePPO) checkpoint() (*checkpoint.Checkpoint, error) { return p.ppo.net.Checkpoint() }

func (p *onlinePPO) keep(c *checkpoint.Checkpoint) (err error) {
	p.acting, p.moments = c.Fingerprint(), p.ppo.adam.Export()
	p.weights, err = p.ppo.net.Export()
	return err
}

func (p *onlinePPO) revert() error {
	if err := p.ppo.net.Import(p.weights); err != nil {
		return err
	}
	return p.ppo.adam.Import(p.moments)
}

func (p *onlinePPO) stale() int { return p.strange }

func (p *onlinePPO) loss() string { return TagPolicyLoss }

// export leaves the rollout out: after a restart it would be of another network anyway.
func (p *onlinePPO) export() (onlineMemory, error) {
	return onlineMemory{Moments: p.ppo.adam.Export()}, nil
}

func (p *onlinePPO) restore(m onlineMemory) error { return p.ppo.adam.Import(m.Moments) }

func (p *onlinePPO) drop() { p.ppo.net.Drop() }
