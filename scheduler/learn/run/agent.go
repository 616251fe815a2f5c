//go:build torch

package run

import (
	"errors"

	"gnnsched/gnn/checkpoint"
)

// Method is a way to learn, with its hyperparameters.
type Method interface {
	// Layout returns the environments that the agent acts in.
	Layout() Layout
	// NewAgent returns an agent that starts from the weights of start. The environments have not begun yet.
	NewAgent(s Settings, e *Environments, start *checkpoint.Checkpoint) (Agent, error)
}

// Agent acts in its environments and learns from its placements, each of which is a step. Between two rounds, the environments begin
// to follow its network.
type Agent interface {
	Learner
	// Phase returns what the agent does at a step, in a word or two, and the tag of the loss that progress shows.
	Phase(step int) (name, loss string)
}

// actor is an agent with its environments.
type actor struct {
	Agent
	envs *Environments
}

// Round implements Learner.
func (a *actor) Round(step, limit int) (int, error) {
	n, err := a.Agent.Round(step, limit)
	if err != nil {
		return 0, err
	}
	return n, a.follow()
}

// follow makes the agent's network act.
func (a *actor) follow() error {
	c, err := a.Checkpoint()
	if err != nil {
		return err
	}
	return a.envs.Follow(c)
}

// State implements Learner: the environments' comes last.
func (a *actor) State() ([]any, error) {
	envs, err := a.envs.state()
	own, failed := a.Agent.State()
	return append(own, envs), errors.Join(err, failed)
}

// Restore implements Learner.
func (a *actor) Restore(read func(into ...any) error) error {
	var envs environmentsState
	if err := a.Agent.Restore(func(into ...any) error { return read(append(into, &envs)...) }); err != nil {
		return err
	}
	if err := a.envs.restore(envs); err != nil {
		return err
	}
	return a.follow()
}
