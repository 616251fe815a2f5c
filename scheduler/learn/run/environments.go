package run

import (
	"fmt"
	"math/rand/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// actingStream separates an agent's random numbers from the others that its seed gives.
const actingStream = 0x616374

// Environments are the simulator's clusters, side by side, in which an agent acts. All follow one acting
// network, and share the agent's random numbers and figures.
type Environments struct {
	All     []*Environment
	Rand    *rand.Rand // of the agent's choices
	Figures *Figures

	// Elsewhere plays rollouts; nil: this process does.
	Elsewhere Elsewhere

	configs []sim.Config // taken in turn by groups of environments
	group   int
	acting  *checkpoint.Checkpoint

	seed    uint64
	source  *rand.PCG // behind Rand
	started uint64    // episodes
}

// Layout describes the environments of an agent.
type Layout struct {
	Count int // a multiple of Group
	Group int // how many of them play the same episodes
	// All shows the network all feasible nodes, as a scheduler does; Mask says which of them preferences leave. Without it, the network
	// sees only those, as in a scheduler profile that learns.
	All bool
}

// NewEnvironments returns environments of the simulator's configurations, which they take in turn, before their first episode.
func NewEnvironments(s Settings, configs []sim.Config, l Layout, a checkpoint.Architecture, f *Figures) (*Environments, error) {
	e := &Environments{Figures: f, configs: configs, group: l.Group, seed: s.Seed, source: rand.NewPCG(s.Seed, actingStream)}
	e.Rand = rand.New(e.source)
	for i := range l.Count {
		c := configs[i/l.Group%len(configs)]
		env, err := sim.New(c)
		if err != nil {
			return nil, fmt.Errorf("simulator: %w", err)
		}
		var teacher policy.Policy
		if s.Imitation.Taught() || s.Residual != "" {
			if teacher, err = TeacherByName(s.Teaching().Teacher, env.Typical()); err != nil {
				return nil, err
			}
		}
		next := e.nextSeed
		if first := i - i%l.Group; first < i { // the others of a group follow its first
			next = func() uint64 { return e.All[first].Seed }
		}
		e.All = append(e.All, &Environment{
			env: env, settings: s, teacher: teacher, all: l.All, groups: readsGroups(a), nextSeed: next, figures: f,
		})
	}
	return e, nil
}

// nextSeed returns the seed of the next training episode. None is a held-out episode's.
func (e *Environments) nextSeed() uint64 {
	e.started++
	return sim.TrainingEpisode(e.seed, e.started)
}

// Begin starts the first episode of every environment, with the network of c acting.
func (e *Environments) Begin(c *checkpoint.Checkpoint) error {
	for _, env := range e.All {
		if err := env.Begin(); err != nil {
			return err
		}
	}
	return e.Follow(c)
}

// Follow makes the network of c act in every environment.
func (e *Environments) Follow(c *checkpoint.Checkpoint) error {
	net, err := infer.New(c)
	if err != nil {
		return fmt.Errorf("the weights went wrong, lower the learning rate: %w", err)
	}
	e.acting = c
	for _, env := range e.All {
		env.follow(net)
	}
	return nil
}

// environmentsState is the part of a state file that environments continue from.
type environmentsState struct {
	Source  []byte // of the random numbers
	Started uint64 // episodes
	Walks   []progress
}

// state returns what restore needs.
func (e *Environments) state() (environmentsState, error) {
	source, err := e.source.MarshalBinary()
	s := environmentsState{Source: source, Started: e.started}
	for _, env := range e.All {
		s.Walks = append(s.Walks, env.progress)
	}
	return s, err
}

// restore brings environments of the same configuration to a state.
func (e *Environments) restore(s environmentsState) error {
	if len(s.Walks) != len(e.All) {
		return fmt.Errorf("the state has %d environments, the configuration %d", len(s.Walks), len(e.All))
	}
	if err := e.source.UnmarshalBinary(s.Source); err != nil {
		return fmt.Errorf("random numbers: %w", err)
	}
	e.started = s.Started
	for i, env := range e.All {
		if err := env.restore(s.Walks[i]); err != nil {
			return err
		}
	}
	return nil
}
