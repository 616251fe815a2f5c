package learn

import "math"

// epsilon is the share of random actions at a step.
func (c Config) epsilon(step int) float64 {
	d := c.DQN
	if d.EpsilonDecay > 0 {
		return max(d.FinalEpsilon, d.InitEpsilon*math.Pow(d.EpsilonDecay, float64(step)))
	}
	return d.FinalEpsilon + (d.InitEpsilon-d.FinalEpsilon)*fading(step, c.Steps, d.EpsilonShare)
}

// imitation is the teacher's part at a step, 1 to 0.
func (c Config) imitation(step int) float64 { return fading(step, c.Steps, c.Imitation.Share) }

// marginWeight is that of the margin loss at a step.
func (c Config) marginWeight(step int) float64 {
	if c.Imitation.Share == 0 {
		return 0
	}
	return max(c.Imitation.MarginWeight*c.imitation(step), c.Imitation.MarginFloor)
}

// learningRate falls linearly to a tenth over the run.
func (c Config) learningRate(step int) float64 {
	return c.LearningRate * (0.1 + 0.9*fading(step, c.Steps, 1))
}

// phase is what an actor-critic run does at a step.
type phase int

const (
	cloning phase = iota
	warmingUp
	improving
)

var phaseNames = [...]string{"behaviour cloning", "critic warm-up", "PPO"}

func (c Config) phase(step int) phase {
	switch at := float64(step) / float64(c.Steps); {
	case at < c.Imitation.Share:
		return cloning
	case at < c.Imitation.Share+c.Imitation.Warmup:
		return warmingUp
	}
	return improving
}

// improved falls linearly from 1 at the first step of the last phase to 0 at the end.
func (c Config) improved(step int) float64 {
	from := min(c.Imitation.Share+c.Imitation.Warmup, 1) * float64(c.Steps)
	left := float64(c.Steps) - from
	if left <= 0 {
		return 0
	}
	return min(max((float64(c.Steps)-float64(step))/left, 0), 1)
}

// fading goes linearly from 1 at step 0 to 0 at share of the steps, and stays there.
func fading(step, steps int, share float64) float64 {
	if share == 0 {
		return 0
	}
	return max(1-float64(step)/(float64(steps)*share), 0)
}
