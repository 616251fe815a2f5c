package tabular

import (
	"errors"
	"fmt"
	"math"

	"gnnsched/internal/seeds"
)

// Config holds every hyperparameter of the agent. The zero value is not valid; start from
// DefaultConfig in package learn/tabular. The agent's file contains it, since its bins are the shape
// of the table.
type Config struct {
	// Bins is the number of bins, for CPU and for memory, of the distance between a candidate's
	// fraction after placement and the mean of all available nodes. They lie between -Range and
	// +Range and are finer near zero. The outermost bins take distances beyond too.
	Bins  int     `json:"bins"`
	Range float64 `json:"range"`
	// SizeBins is the number of bins of the pod's request as a part of a mean node: at least half,
	// at least a quarter, and so on. The last takes all smaller pods.
	SizeBins int `json:"sizeBins"`

	Seed  uint64 `json:"seed"`
	Steps int    `json:"steps"` // placements to learn from

	Gamma float64 `json:"gamma"` // discount of the next placement's reward
	// LearningRate is the smallest step size. The n-th update of a value has step size 1/n if that
	// is larger, so that the value is the mean of its first targets.
	LearningRate float64 `json:"learningRate"`

	// Exploration: with probability epsilon the candidate is random. Epsilon falls linearly from
	// InitEpsilon to FinalEpsilon over EpsilonShare of the steps.
	InitEpsilon  float64 `json:"initEpsilon"`
	FinalEpsilon float64 `json:"finalEpsilon"`
	EpsilonShare float64 `json:"epsilonShare"`
}

// Validate reports every value that is out of range.
func (c Config) Validate() error {
	var errs []error
	for _, v := range []struct {
		name             string
		value, low, high float64
	}{
		{"bins", float64(c.Bins), 1, 1001},
		{"range", c.Range, 1e-3, 10},
		{"sizeBins", float64(c.SizeBins), 1, 32},
		{"steps", float64(c.Steps), 1, 1e9},
		{"gamma", c.Gamma, 0, 0.999},
		{"learningRate", c.LearningRate, 1e-6, 1},
		{"initEpsilon", c.InitEpsilon, 0, 1},
		{"finalEpsilon", c.FinalEpsilon, 0, 1},
		{"epsilonShare", c.EpsilonShare, 0, 1},
	} {
		if math.IsNaN(v.value) || v.value < v.low || v.value > v.high {
			errs = append(errs, fmt.Errorf("%s is %v, want %v to %v", v.name, v.value, v.low, v.high))
		}
	}
	return errors.Join(append(errs, seeds.CheckTraining(c.Seed))...)
}

// cells returns the number of values in the table.
func (c Config) cells() int { return c.Bins * c.Bins * c.SizeBins }
