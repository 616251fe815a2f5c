package ppo

import (
	"math"
	"testing"

	"gnnsched/scheduler/learn/run"
)

func TestPhases(t *testing.T) {
	c := settings{run.Settings{Steps: 100, Imitation: run.Imitation{Share: 0.25, Warmup: 0.25}}, Defaults()}
	for step, want := range map[int]phase{0: cloning, 24: cloning, 25: warmingUp, 49: warmingUp, 50: improving, 99: improving} {
		if got := c.phase(step); got != want {
			t.Errorf("at %d: %v, want %v", step, phaseNames[got], phaseNames[want])
		}
	}
	for step, want := range map[int]float64{50: 1, 75: 0.5, 100: 0, 120: 0} {
		if got := c.left(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("share left at %d: %v, want %v", step, got, want)
		}
	}
}
