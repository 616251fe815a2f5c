package tabular

import "gnnsched/scheduler/policy/tabular"

// DefaultConfig returns the configuration that learns the objective balance in a few seconds.
func DefaultConfig() tabular.Config {
	return tabular.Config{
		Bins: 21, Range: 0.5, SizeBins: 6, Seed: 1, Steps: 200_000, Gamma: 0.5, LearningRate: 0.002,
		InitEpsilon: 1, FinalEpsilon: 0.05, EpsilonShare: 0.5,
	}
}

// epsilon returns the share of random choices at a step.
func epsilon(c tabular.Config, step int) float64 {
	faded := 1.0
	if span := c.EpsilonShare * float64(c.Steps); float64(step) < span {
		faded = float64(step) / span
	}
	return c.InitEpsilon + (c.FinalEpsilon-c.InitEpsilon)*faded
}
