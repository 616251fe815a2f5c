//go:build torch

package learn

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/sim"
)

// weightStream separates the random numbers of the first weights from the others that a seed gives.
const weightStream = 0x6c6561726e

// NewTrainer returns a run of the job in the simulator, from the weights of a network or, if that is nil, from random ones. The caller
// sets the other fields of the trainer.
func NewTrainer(j Job, from *checkpoint.Checkpoint) (*run.Trainer, error) {
	if err := j.Validate(); err != nil {
		return nil, fmt.Errorf("training configuration: %w", err)
	}
	start, err := j.startFrom(from)
	if err != nil {
		return nil, fmt.Errorf("training configuration: %w", err)
	}
	if start.Manifest.Config, err = json.Marshal(j); err != nil {
		return nil, fmt.Errorf("encode the configuration: %w", err)
	}
	start.Manifest.Seed, start.Manifest.Objective = j.Seed, j.Environment.Objective.Name()
	return &run.Trainer{
		Settings: j.Settings, Selection: j.Selection, Method: j.Rollouts,
		Environments: append([]sim.Config{j.Environment}, j.Also...), Start: start,
	}, nil
}

// startFrom returns the network that the run starts from.
func (j Job) startFrom(from *checkpoint.Checkpoint) (*checkpoint.Checkpoint, error) {
	a := j.Architecture()
	start := checkpoint.Random(a, rand.New(rand.NewPCG(j.Seed, weightStream)))
	if from == nil {
		return start, nil
	}
	if have := from.Manifest.Architecture; !have.Equal(a) {
		return nil, fmt.Errorf("the network to start from is %v with the features %v, the job's %v with %v", have, have.Features, a, a.Features)
	}
	start.Weights = from.Weights
	return start, nil
}

// ResumedJob returns the job of a run's state.
func ResumedJob(s *run.State) (j Job, err error) { return j, json.Unmarshal(s.Stored, &j) }
