package ppo

import "gnnsched/scheduler/learn/run"

// settings are the hyperparameters of a run by this method.
type settings struct {
	run.Settings
	Config
}

// phase is one of the parts of a run.
type phase int

const (
	cloning   phase = iota // behaviour cloning: the policy learns the teacher's choices
	warmingUp              // the critic learns the value of the cloned policy, which stays as it is
	improving              // PPO
)

var phaseNames = [...]string{"behaviour cloning", "critic warm-up", "PPO"}

// phase returns the phase at a step.
func (s settings) phase(step int) phase {
	switch at := float64(step) / float64(s.Steps); {
	case at < s.Imitation.Share:
		return cloning
	case at < s.Imitation.Share+s.Imitation.Warmup:
		return warmingUp
	}
	return improving
}

// left falls linearly from 1 at the first step of the last phase to 0 at the end of the run.
func (s settings) left(step int) float64 {
	from := min(s.Imitation.Share+s.Imitation.Warmup, 1) * float64(s.Steps)
	length := float64(s.Steps) - from
	if length <= 0 {
		return 0
	}
	return min(max((float64(s.Steps)-float64(step))/length, 0), 1)
}
