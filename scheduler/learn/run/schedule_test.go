package run

import (
	"math"
	"testing"
)

func TestLearningRateFalls(t *testing.T) {
	s := Settings{Steps: 100, LearningRate: 0.01}
	for step, want := range map[int]float64{0: 0.01, 50: 0.0055, 100: 0.001} {
		if got := s.LearningRateAt(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("learning rate at %d is %v, want %v", step, got, want)
		}
	}
}

func TestFade(t *testing.T) {
	s := Settings{Steps: 100}
	for step, want := range map[int]float64{0: 1, 10: 0.5, 20: 0, 99: 0} {
		if got := s.fade(step, 0.2); math.Abs(got-want) > 1e-12 {
			t.Errorf("at %d: %v, want %v", step, got, want)
		}
	}
	if s.fade(0, 0) != 0 {
		t.Error("a share of 0 does not begin at 0")
	}
}
