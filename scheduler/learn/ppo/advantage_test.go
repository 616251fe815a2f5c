package ppo

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The recursion gives the sum of the definition, for every length of the episodes.
func TestAdvantages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "steps")
		gamma, lambda := rapid.Float64Range(0, 1).Draw(t, "gamma"), rapid.Float64Range(0, 1).Draw(t, "lambda")
		number := rapid.Float64Range(-3, 3)
		rewards, values := rapid.SliceOfN(number, n, n).Draw(t, "rewards"), rapid.SliceOfN(number, n+1, n+1).Draw(t, "values")
		last, beyond := rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "last"), rapid.SliceOfN(number, n, n).Draw(t, "beyond")
		got := make([]float64, n)
		sequence{rewards, values, last, beyond}.advantages(got, gamma, lambda)
		for from := range got {
			want, factor := 0.0, 1.0
			for i := from; i < n; i++ {
				after := values[i+1]
				if last[i] {
					after = beyond[i]
				}
				want += factor * (rewards[i] + gamma*after - values[i])
				if last[i] {
					break
				}
				factor *= gamma * lambda
			}
			if math.Abs(got[from]-want) > 1e-9 {
				t.Fatalf("advantage %d is %v, want %v", from, got[from], want)
			}
		}
	})
}

// Each environment's steps are a sequence of their own, and the critic's target is the sum of advantage
// and value.
func TestRolloutEstimate(t *testing.T) {
	r := newRollout(4)
	r.rewards, r.values = []float64{1, 2, 3, 4}, []float64{10, 20, 30, 40}
	r.last, r.beyond = []bool{false, true, true, false}, []float64{0, 0, 60, 0} // the second episode ends, the third is truncated
	r.estimate([]float64{100, 1000}, 0.5, 0)
	want := []float64{1 + 10 - 10, 2 - 20, 3 + 30 - 30, 4 + 500 - 40}
	for i := range want {
		if r.advantages[i] != want[i] || r.returns[i] != want[i]+r.values[i] {
			t.Errorf("%d: advantage %v, return %v; want %v", i, r.advantages[i], r.returns[i], want[i])
		}
	}
}

// The advantages of a group at one time add up to 0, and their differences stay.
func TestRolloutCentre(t *testing.T) {
	r := newRollout(8) // two groups of two environments, two placements each
	copy(r.advantages, []float64{1, 2, 3, 8, 10, 20, 30, 40})
	r.centre(2, 2)
	for i, want := range []float64{-1, -3, 1, 3, -10, -10, 10, 10} {
		if r.advantages[i] != want {
			t.Errorf("%d: %v, want %v", i, r.advantages[i], want)
		}
	}
	r.centre(1, 2)
	if r.advantages[3] != 3 {
		t.Error("the advantages of a group of one changed")
	}
}

func TestNormalise(t *testing.T) {
	x := []float64{1, 2, 3, 10}
	normalise(x)
	if m, v := (x[0]+x[1]+x[2]+x[3])/4, variance(x); math.Abs(m) > 1e-12 || math.Abs(v-1) > 1e-6 {
		t.Errorf("mean %v, variance %v", m, v)
	}
	if got := explained([]float64{1, 2, 3}, []float64{2, 3, 4}); got != 1 {
		t.Errorf("a shifted copy explains %v", got)
	}
	if got := explained([]float64{0, 0, 0}, []float64{2, 3, 4}); got != 0 {
		t.Errorf("a constant explains %v", got)
	}
	if got := explained([]float64{0, 1}, []float64{2, 2}); got != 0 {
		t.Errorf("a constant is explained by %v", got)
	}
}
