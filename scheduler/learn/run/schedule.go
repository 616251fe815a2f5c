package run

import "math"

// Discount returns the factor by which a reward counts less than that of the placement before.
func (s Settings) Discount() float64 {
	if s.HalfLife > 0 {
		return math.Exp2(-1 / s.HalfLife)
	}
	return s.Gamma
}

// LearningRateAt returns the learning rate at a step: it falls linearly to a tenth over the run.
func (s Settings) LearningRateAt(step int) float64 {
	return s.LearningRate * (0.1 + 0.9*s.Fade(step, 1))
}

// TeacherShare returns the teacher's part in acting at a step, from 1 at the start to 0.
func (s Settings) TeacherShare(step int) float64 { return s.Fade(step, s.Imitation.Share) }

// Fade falls linearly from 1 at step 0 to 0 at the given share of the steps, and stays there. It
// is 0 for a share of 0.
func (s Settings) Fade(step int, share float64) float64 {
	if share == 0 {
		return 0
	}
	return max(1-float64(step)/(float64(s.Steps)*share), 0)
}
