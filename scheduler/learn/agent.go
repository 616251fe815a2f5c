//go:build torch

package learn

import (
	"fmt"
	"math/rand/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// agent learns while it acts, in rounds. Between two rounds all that it goes on from is in its
// state: what an unbroken run and one that was killed have in common.
type agent interface {
	// round makes placements and learns from them; step is how many there were before. It
	// returns how many it made, no more than limit unless a round is longer than that.
	round(step, limit int) (int, error)
	checkpoint() (*checkpoint.Checkpoint, error)
	loss(step int) string  // tag of the loss that progress shows
	phase(step int) string // what it does, in a word or two
	export() (agentState, error)
	restore(agentState) error
	drop()
}

// newAgent returns the agent of the configuration with the weights of start.
func newAgent(c Config, env sim.Config, start *checkpoint.Checkpoint, f *figures) (agent, error) {
	var teacher policy.Policy
	if c.Imitation.Share > 0 || c.Imitation.Coefficient > 0 {
		var err error
		if teacher, err = TeacherByName(c.Imitation.Teacher); err != nil {
			return nil, err
		}
	}
	a := &actors{config: c, figures: f, source: rand.NewPCG(c.Seed, 0x616374)}
	a.rng = rand.New(a.source)
	walkers := 1
	if c.head() == checkpoint.ActorCritic {
		walkers = c.PPO.Envs
	}
	for i := range walkers {
		next := a.seed
		if first := i - i%max(c.PPO.Group, 1); first < i { // who is not the first of its group follows it
			next = func() uint64 { return a.walkers[first].Seed }
		}
		w, err := newWalker(c, env, teacher, next, f.episode)
		if err != nil {
			return nil, fmt.Errorf("simulator: %w", err)
		}
		a.walkers = append(a.walkers, w)
	}
	if c.head() == checkpoint.ActorCritic {
		return newPPOAgent(a, start)
	}
	return newDQNAgent(a, start)
}

// actors are what agents act with.
type actors struct {
	config  Config
	figures *figures
	source  *rand.PCG // behind rng
	rng     *rand.Rand
	walkers []*walker
	started uint64 // episodes
}

// seed is that of the next training episode. They are apart from the held-out ones.
func (a *actors) seed() uint64 {
	a.started++
	return a.config.Seed<<32 + a.started
}

// begin starts everybody's first episode.
func (a *actors) begin() error {
	for _, w := range a.walkers {
		if err := w.begin(); err != nil {
			return err
		}
	}
	return nil
}

// follow lets all act with the weights of c.
func (a *actors) follow(c *checkpoint.Checkpoint) error {
	net, err := infer.New(c)
	if err != nil {
		return fmt.Errorf("the weights went wrong, lower the learning rate: %w", err)
	}
	for _, w := range a.walkers {
		w.follow(net)
	}
	return nil
}

// acted notes which node was chosen.
func (a *actors) acted(row int32) { a.figures.actions = append(a.figures.actions, float64(row)) }

// actorsState is what actors go on from.
type actorsState struct {
	Source  []byte
	Started uint64
	Walks   []walk
}

func (a *actors) exportActors() (actorsState, error) {
	source, err := a.source.MarshalBinary()
	s := actorsState{Source: source, Started: a.started}
	for _, w := range a.walkers {
		s.Walks = append(s.Walks, w.walk)
	}
	return s, err
}

func (a *actors) restoreActors(s actorsState) error {
	if len(s.Walks) != len(a.walkers) {
		return fmt.Errorf("the state has %d environments, the configuration %d", len(s.Walks), len(a.walkers))
	}
	if err := a.source.UnmarshalBinary(s.Source); err != nil {
		return fmt.Errorf("random numbers: %w", err)
	}
	a.started = s.Started
	for i, w := range a.walkers {
		if err := w.resume(s.Walks[i]); err != nil {
			return err
		}
	}
	return nil
}
