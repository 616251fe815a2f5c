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

// Agent acts in its environments and learns from its placements, each of which is a step.
type Agent interface {
	Learner[Score]
	// LossTag returns the tag of the loss that progress shows at a step.
	LossTag(step int) string
	// Phase returns what the agent does at a step, in a word or two.
	Phase(step int) string
}
