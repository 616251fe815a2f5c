//go:build torch

package online

import (
	"math/rand/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/run"
)

// Method is a way to learn from a stream of steps, with its hyperparameters.
type Method interface {
	// NewLearner returns a learner that starts from the weights of start and has no memory. It
	// draws from rng and notes its figures in f.
	NewLearner(s run.Settings, start *checkpoint.Checkpoint, rng *rand.Rand, f *run.Figures) (Learner, error)
}

// Step is a scheduler's step with what the trainer knows about the one before it.
type Step struct {
	experience.Step
	// Contiguous tells that the actor's step before this one is not missing. Reward is that step's.
	Contiguous bool
	Reward     float64
}

// Learner learns from the steps of schedulers. Those of one actor come in the order in which they
// were made; the steps of different actors may alternate.
type Learner interface {
	// Take takes a step, and learns if that is due. It returns the number of updates.
	Take(s Step) (updates int, err error)
	// Checkpoint returns the network as it is now.
	Checkpoint() (*checkpoint.Checkpoint, error)
	// JudgeEvery returns the number of updates between two judgements of the network.
	JudgeEvery() int
	// Keep notes that the schedulers continue with this network, which Checkpoint returned.
	Keep(*checkpoint.Checkpoint) error
	// Revert goes back to the network that was kept last.
	Revert() error
	// Stale returns the number of steps that were not learned from because another network made
	// them.
	Stale() int
	// LossTag returns the tag of the loss that progress shows.
	LossTag() string
	// FigureTags returns the tags of more figures that progress shows.
	FigureTags() []string
	// Save writes a state file with SaveState: the trainer's part, and the learner's.
	Save(path string, s State) error
	// Restore takes over the memory of a state file, which it reads with Memory. The weights are
	// not in it. It returns the number of transitions that it remembers. After an error the
	// learner is of no use.
	Restore(s *State) (transitions int, err error)
	// Drop frees the networks.
	Drop()
}
