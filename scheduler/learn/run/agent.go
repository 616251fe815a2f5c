//go:build torch

package run

import (
	"gnnsched/gnn/checkpoint"
)

// Method is a way to learn, with its hyperparameters.
type Method interface {
	// Layout returns the environments that the agent acts in.
	Layout() Layout
	// NewAgent returns an agent that starts from the weights of start and begins the first
	// episodes of the environments.
	NewAgent(s Settings, e *Environments, start *checkpoint.Checkpoint) (Agent, error)
}

// Agent acts in its environments and learns, in rounds. Between two rounds a state file can hold
// everything that it continues from, so that a stopped run ends like an unbroken one.
type Agent interface {
	// Round makes placements and learns from them. step is the number of placements before it.
	// It returns how many it made: at most limit, unless one round takes more.
	Round(step, limit int) (int, error)
	// Checkpoint returns the network as it is now.
	Checkpoint() (*checkpoint.Checkpoint, error)
	// LossTag returns the tag of the loss that progress shows at a step.
	LossTag(step int) string
	// Phase returns what the agent does at a step, in a word or two.
	Phase(step int) string
	// Save writes a state file with SaveState: the run's part, and the agent's.
	Save(path string, s State) error
	// Restore brings a new agent to the state of a file, which it reads with AgentState.
	Restore(s *State) error
	// Drop frees the networks.
	Drop()
}
