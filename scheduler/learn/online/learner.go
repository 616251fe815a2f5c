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
	// Forget drops what waits for further steps.
	Forget()
	// Checkpoint returns the network as it is now.
	Checkpoint() (*checkpoint.Checkpoint, error)
	// Habits returns how the trainer treats the learner.
	Habits() Habits
	// Keep notes that the schedulers continue with the network as it is now.
	Keep() error
	// Revert goes back to the network that was kept last.
	Revert() error
	// State returns the memory, from which Restore continues. Package gob encodes its values. The weights are not in it.
	State() ([]any, error)
	// Restore takes over a memory. read decodes its values into pointers. Restore returns the number of transitions that it
	// remembers. After an error the learner is of no use.
	Restore(read func(into ...any) error) (transitions int, err error)
	// Drop frees the networks.
	Drop()
}

// Habits guide a learner's trainer and describe its progress.
type Habits struct {
	JudgeEvery int      // updates between two judgements of the network
	Stale      int      // steps so far that were not learned from because another network made them
	Loss       string   // tag of the loss that progress shows
	Figures    []string // tags of more figures that progress shows
}
