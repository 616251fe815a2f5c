package plugin

import (
	"errors"
	"fmt"

	"gnnsched/scheduler/objective"
)

// LearnArgs make a profile learn while it schedules: it explores, and hands what came of it
// to a trainer process, which writes the checkpoint that the profile loads again.
type LearnArgs struct {
	// Trainer is the program and its arguments. It reads package online's stream from its
	// stdin until that ends, and writes Args.Checkpoint.
	Trainer []string `json:"trainer"`
	// Objective is what placements are rewarded for, as objective.Parse reads it.
	Objective string `json:"objective"`
	// Exploration of a network of deep Q-learning: a random feasible node with probability
	// epsilon, which starts at InitEpsilon and is multiplied by EpsilonDecay after each
	// decision, down to FinalEpsilon. An actor-critic draws a node with the probabilities that
	// it gives them, whatever is said here.
	InitEpsilon  float64 `json:"initEpsilon,omitempty"`
	EpsilonDecay float64 `json:"epsilonDecay,omitempty"`
	FinalEpsilon float64 `json:"finalEpsilon,omitempty"`
}

// Validate reports the first value of no use.
func (a LearnArgs) Validate() error {
	if len(a.Trainer) == 0 || a.Trainer[0] == "" {
		return errors.New("learn: no trainer is named")
	}
	if _, err := objective.Parse(a.Objective); err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	for _, v := range []struct {
		name             string
		value, low, high float64
	}{
		{"initEpsilon", a.InitEpsilon, 0, 1},
		{"finalEpsilon", a.FinalEpsilon, 0, a.InitEpsilon},
		{"epsilonDecay", a.EpsilonDecay, 0, 1},
	} {
		if !(v.value >= v.low && v.value <= v.high) {
			return fmt.Errorf("learn: %s is %v, want %v to %v", v.name, v.value, v.low, v.high)
		}
	}
	return nil
}
