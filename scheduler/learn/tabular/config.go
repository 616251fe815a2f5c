package tabular

import (
	"errors"
	"fmt"
	"math"
)

// Config is every hyperparameter of the agent. The zero value is not useful; start from
// DefaultConfig. It is kept with the table, whose shape its bins are.
type Config struct {
	// Bins of the distance between a candidate's fraction after placement and the mean of all
	// available nodes, for CPU and memory each. They lie between -Range and +Range, the finer
	// the nearer to zero; what is farther out counts to the outermost.
	Bins  int     `json:"bins"`
	Range float64 `json:"range"`
	// SizeBins are of the pod's part of a mean node: at least half of it, at least a quarter,
	// and so on; the last holds all that are smaller.
	SizeBins int `json:"sizeBins"`

	Seed  uint64 `json:"seed"`
	Steps int    `json:"steps"` // placements to learn from

	Gamma float64 `json:"gamma"` // discount a placement
	// LearningRate is the least step size. A value's n-th update has 1/n where that is more,
	// so that early values are means.
	LearningRate float64 `json:"learningRate"`

	// Exploration: a random candidate with probability epsilon, which falls linearly from
	// InitEpsilon to FinalEpsilon over EpsilonShare of the steps.
	InitEpsilon  float64 `json:"initEpsilon"`
	FinalEpsilon float64 `json:"finalEpsilon"`
	EpsilonShare float64 `json:"epsilonShare"`
}

// DefaultConfig learns balance in a few seconds.
func DefaultConfig() Config {
	return Config{
		Bins: 21, Range: 0.5, SizeBins: 6, Seed: 1, Steps: 200_000, Gamma: 0.5, LearningRate: 0.002,
		InitEpsilon: 1, FinalEpsilon: 0.05, EpsilonShare: 0.5,
	}
}

// maxSeed keeps the seeds of training episodes, which are made of it, below 1<<62, where
// package learn's held-out ones start.
const maxSeed = 1<<30 - 1

// Validate says everything that is out of range.
func (c Config) Validate() error {
	var errs []error
	for _, v := range []struct {
		name             string
		value, low, high float64
	}{
		{"bins", float64(c.Bins), 1, 1001},
		{"range", c.Range, 1e-3, 10},
		{"sizeBins", float64(c.SizeBins), 1, 32},
		{"seed", float64(c.Seed), 0, maxSeed},
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
	return errors.Join(errs...)
}

// cells is how many values the table holds.
func (c Config) cells() int { return c.Bins * c.Bins * c.SizeBins }

// epsilon is the share of random choices at a step.
func (c Config) epsilon(step int) float64 {
	faded := 1.0
	if span := c.EpsilonShare * float64(c.Steps); float64(step) < span {
		faded = float64(step) / span
	}
	return c.InitEpsilon + (c.FinalEpsilon-c.InitEpsilon)*faded
}
