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
		got := make(rollout, n)
		for i := range got {
			got[i] = step{reward: rewards[i], value: values[i], last: last[i], beyond: beyond[i]}
		}
		got.estimate(values[n:], gamma, lambda)
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
			if math.Abs(got[from].advantage-want) > 1e-9 {
				t.Fatalf("advantage %d is %v, want %v", from, got[from].advantage, want)
			}
		}
	})
}

// Each environment's steps are a sequence of their own, and the critic's target is the sum of advantage
// and value.
func TestRolloutEstimate(t *testing.T) {
	r := rollout{ // the second episode ends, the third is truncated
		{reward: 1, value: 10}, {reward: 2, value: 20, last: true}, {reward: 3, value: 30, last: true, beyond: 60}, {reward: 4, value: 40},
	}
	r.estimate([]float64{100, 1000}, 0.5, 0)
	want := []float64{1 + 10 - 10, 2 - 20, 3 + 30 - 30, 4 + 500 - 40}
	for i := range want {
		if r[i].advantage != want[i] || r[i].target != want[i]+r[i].value {
			t.Errorf("%d: %+v; want the advantage %v", i, r[i], want[i])
		}
	}
}

// The advantages of a group at one time add up to 0, and their differences stay.
func TestRolloutCentre(t *testing.T) {
	r := make(rollout, 8) // two groups of two environments, two placements each
	for i, a := range []float64{1, 2, 3, 8, 10, 20, 30, 40} {
		r[i].advantage = a
	}
	r.centre(2, 2)
	for i, want := range []float64{-1, -3, 1, 3, -10, -10, 10, 10} {
		if r[i].advantage != want {
			t.Errorf("%d: %v, want %v", i, r[i].advantage, want)
		}
	}
	r.centre(1, 2)
	if r[3].advantage != 3 {
		t.Error("the advantages of a group of one changed")
	}
}

func TestNormalise(t *testing.T) {
	r := rollout{{advantage: 1}, {advantage: 2}, {advantage: 3}, {advantage: 10}}
	r.normalise()
	x := column(r, []int{0, 1, 2, 3}, func(s *step) float64 { return s.advantage })
	if m, v := (x[0]+x[1]+x[2]+x[3])/4, variance(x); math.Abs(m) > 1e-12 || math.Abs(v-1) > 1e-6 {
		t.Errorf("mean %v, variance %v", m, v)
	}
	for _, c := range []struct {
		values, targets [3]float64
		want            float64
	}{
		{[3]float64{1, 2, 3}, [3]float64{2, 3, 4}, 1}, // shifted
		{[3]float64{}, [3]float64{2, 3, 4}, 0},        // values are constant
		{[3]float64{0, 1, 2}, [3]float64{2, 2, 2}, 0}, // targets are
	} {
		r := make(rollout, 3)
		for i := range r {
			r[i].value, r[i].target = c.values[i], c.targets[i]
		}
		if got := r.explained(); got != c.want {
			t.Errorf("%v explain %v of %v", c.values, got, c.targets)
		}
	}
}
