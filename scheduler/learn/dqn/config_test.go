package dqn

import (
	"math"
	"testing"

	"gnnsched/scheduler/learn/run"
)

func TestSchedules(t *testing.T) {
	s := settings{run.Settings{Steps: 100}, Config{InitEpsilon: 1, FinalEpsilon: 0.1, EpsilonShare: 0.5}}
	check := func(name string, at func(int) float64, values map[int]float64) {
		t.Helper()
		for step, want := range values {
			if got := at(step); math.Abs(got-want) > 1e-12 {
				t.Errorf("%s at %d is %v, want %v", name, step, got, want)
			}
		}
	}
	check("epsilon", s.epsilon, map[int]float64{0: 1, 25: 0.55, 50: 0.1, 99: 0.1})
	check("margin weight without imitation", s.marginWeight, map[int]float64{0: 0})
	s.Imitation = run.Imitation{Share: 0.5, MarginWeight: 2, MarginFloor: 0.1}
	check("margin weight", s.marginWeight, map[int]float64{0: 2, 25: 1, 49: 0.1, 99: 0.1})
	s.EpsilonDecay = 0.5
	check("decaying epsilon", s.epsilon, map[int]float64{0: 1, 1: 0.5, 99: 0.1})
}
