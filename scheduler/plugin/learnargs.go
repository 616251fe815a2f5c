package plugin

import (
	"errors"
	"fmt"

	"gnnsched/scheduler/objective"
)

// LearnArgs make a profile learn while it schedules. It explores and sends its placements to a
// trainer process, which writes the checkpoint that the profile loads.
type LearnArgs struct {
	// Trainer is the program and its arguments. It reads the stream of experience.Writer from its
	// standard input until the stream ends, and writes Args.Checkpoint.
	Trainer []string `json:"trainer"`
	// Objective gives the reward of a placement; objective.Parse reads it.
	Objective string `json:"objective"`
	// A network of deep Q-learning explores: with probability epsilon it chooses a random feasible
	// node. Epsilon starts at InitEpsilon and is multiplied by EpsilonDecay after each decision,
	// down to FinalEpsilon. An actor-critic ignores these values; it draws each node with the
	// probability that it gives it.
	InitEpsilon  float64 `json:"initEpsilon,omitempty"`
	EpsilonDecay float64 `json:"epsilonDecay,omitempty"`
	FinalEpsilon float64 `json:"finalEpsilon,omitempty"`
}

// Validate returns an error for the first invalid value.
func (a LearnArgs) Validate() error {
	if len(a.Trainer) == 0 || a.Trainer[0] == "" {
		return errors.New("learn: trainer is missing")
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
			return fmt.Errorf("learn: %s is %v, want a value from %v to %v", v.name, v.value, v.low, v.high)
		}
	}
	return nil
}
