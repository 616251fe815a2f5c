//go:build torch

package learn

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/learn/online"
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
		Settings: j.Settings, Selection: j.Selection, Method: j.Chosen().(run.Method),
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
func ResumedJob(s *run.State) (j Job, err error) {
	if err = json.Unmarshal(s.Stored, &j); err == nil && j.Method == "" {
		err = errors.New("another version of gnntrain stored the run: start anew")
	}
	return j, err
}

// NewOnlineTrainer returns a run of a job that onlineJob made. The caller sets the other fields of the
// trainer.
func NewOnlineTrainer(j Job) (*online.Trainer, error) {
	if err := j.Config.Validate(); err != nil {
		return nil, fmt.Errorf("training configuration: %w", err)
	}
	method, can := j.Chosen().(online.Method)
	if !can {
		return nil, exit.New(exit.Usage, fmt.Errorf("the method %s learns in the simulator alone", j.Chosen().Name()),
			"leave --method out: the network's head has one for a running scheduler")
	}
	return &online.Trainer{Settings: j.Settings, Method: method, WaitCost: j.Environment.WaitCost}, nil
}
