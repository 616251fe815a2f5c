package learn

import (
	"fmt"

	"gnnsched/gnn/checkpoint"
)

// Config is every hyperparameter of a training run. The zero value is not useful; start from
// DefaultConfig. Its JSON form is written into the checkpoint.
type Config struct {
	Encoder checkpoint.Encoder `json:"encoder"`
	Hidden  int                `json:"hiddenLayers"` // width of every embedding
	Seed    uint64             `json:"seed"`
	Steps   int                `json:"steps"` // placements to learn from

	// Exploration: a random node with probability epsilon, which falls linearly from
	// InitEpsilon to FinalEpsilon over EpsilonShare of the steps.
	InitEpsilon  float64 `json:"initEpsilon"`
	FinalEpsilon float64 `json:"finalEpsilon"`
	EpsilonShare float64 `json:"epsilonShare"`

	// Imitation: over this share of the steps a teacher's part fades from one to nothing,
	// both in acting and in the large-margin loss that prefers its choice (DQfD, Hester et
	// al. 2018). 0 for none.
	ImitationShare float64 `json:"imitationShare"`
	Margin         float64 `json:"margin"`       // by which the teacher's choice is to lead, in units of Q
	MarginWeight   float64 `json:"marginWeight"` // of the margin loss at the start

	Gamma                 float64 `json:"gamma"`                 // discount a placement
	NStep                 int     `json:"nStep"`                 // rewards summed before bootstrapping
	LearningRate          float64 `json:"learningRate"`          // of Adam at the start; falls linearly to a tenth
	BatchSize             int     `json:"batchSize"`             // transitions an update
	ReplayBufferSize      int     `json:"replayBufferSize"`      // transitions kept
	PriorityExponent      float64 `json:"priorityExponent"`      // of prioritised replay; 0 draws uniformly
	UpdateFrequency       int     `json:"updateFrequency"`       // placements between updates
	TargetUpdateFrequency int     `json:"targetUpdateFrequency"` // updates between copies to the target network
	ClipNorm              float64 `json:"clipNorm"`              // limit of the gradient's norm

	EvaluateEvery int `json:"evaluateEvery"` // placements between evaluations
	EvaluateSeeds int `json:"evaluateSeeds"` // held-out episodes an evaluation
}

// DefaultConfig is what the shipped GNN-DQN was trained with.
func DefaultConfig() Config {
	return Config{
		Encoder: checkpoint.GNN, Hidden: 32, Seed: 1, Steps: 60_000,
		InitEpsilon: 0.5, FinalEpsilon: 0.05, EpsilonShare: 0.5,
		ImitationShare: 1, Margin: 0.1, MarginWeight: 1,
		Gamma: 0.5, NStep: 1, LearningRate: 5e-4, BatchSize: 128, ReplayBufferSize: 20_000, PriorityExponent: 0.6,
		UpdateFrequency: 4, TargetUpdateFrequency: 200, ClipNorm: 5,
		EvaluateEvery: 5_000, EvaluateSeeds: 100,
	}
}

// Validate reports the first value out of range.
func (c Config) Validate() error {
	if err := c.architecture().Validate(); err != nil {
		return err
	}
	for _, v := range []struct {
		name      string
		value     float64
		low, high float64
	}{
		{"seed", float64(c.Seed), 0, maxSeed},
		{"steps", float64(c.Steps), 1, 1e9},
		{"initial epsilon", c.InitEpsilon, 0, 1},
		{"final epsilon", c.FinalEpsilon, 0, 1},
		{"epsilon share", c.EpsilonShare, 0, 1},
		{"imitation share", c.ImitationShare, 0, 1},
		{"margin", c.Margin, 0, 1e3},
		{"margin weight", c.MarginWeight, 0, 1e3},
		{"gamma", c.Gamma, 0, 1},
		{"n-step", float64(c.NStep), 1, 1000},
		{"learning rate", c.LearningRate, 1e-9, 1},
		{"batch size", float64(c.BatchSize), 1, 65536},
		{"replay buffer size", float64(c.ReplayBufferSize), float64(c.BatchSize), 1e7},
		{"priority exponent", c.PriorityExponent, 0, 1},
		{"update frequency", float64(c.UpdateFrequency), 1, 1e6},
		{"target update frequency", float64(c.TargetUpdateFrequency), 1, 1e6},
		{"clip norm", c.ClipNorm, 1e-6, 1e6},
		{"evaluate every", float64(c.EvaluateEvery), 1, 1e9},
		{"evaluate seeds", float64(c.EvaluateSeeds), 2, 1000},
	} {
		if !(v.value >= v.low && v.value <= v.high) {
			return fmt.Errorf("%s is %v, want %v to %v", v.name, v.value, v.low, v.high)
		}
	}
	return nil
}

// maxSeed keeps the seeds of training episodes, which are made of it, below the held-out
// ones.
const maxSeed = 1<<30 - 1

func (c Config) architecture() checkpoint.Architecture {
	return checkpoint.Architecture{Encoder: c.Encoder, Head: checkpoint.DQN, Hidden: c.Hidden}
}

// epsilon is the share of random actions at a step.
func (c Config) epsilon(step int) float64 {
	return c.FinalEpsilon + (c.InitEpsilon-c.FinalEpsilon)*fading(step, c.Steps, c.EpsilonShare)
}

// imitation is the teacher's part at a step, 1 to 0.
func (c Config) imitation(step int) float64 { return fading(step, c.Steps, c.ImitationShare) }

// learningRate falls linearly to a tenth over the run.
func (c Config) learningRate(step int) float64 {
	return c.LearningRate * (0.1 + 0.9*fading(step, c.Steps, 1))
}

// fading goes linearly from 1 at step 0 to 0 at share of the steps, and stays there.
func fading(step, steps int, share float64) float64 {
	if share == 0 {
		return 0
	}
	return max(1-float64(step)/(float64(steps)*share), 0)
}
