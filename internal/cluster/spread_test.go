package cluster

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"
)

// Sums give the mean and deviation of the values, and Moved those after one value has changed.
func TestSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 20).Draw(t, "values")
		var s Sums
		for _, x := range values {
			s.Add(x)
		}
		check(t, s, values)
		i := rapid.IntRange(0, len(values)-1).Draw(t, "which")
		d := rapid.Float64Range(-1, 1).Draw(t, "by")
		changed := slices.Clone(values)
		changed[i] += d
		check(t, s.Moved(values[i], d), changed)
	})
}

func check(t *rapid.T, s Sums, values []float64) {
	mean, std := stat.PopMeanStdDev(values, nil)
	if math.Abs(s.Mean()-mean) > 1e-9 || math.Abs(s.Std()-std) > 1e-6 {
		t.Fatalf("%v: mean %v and deviation %v, want %v and %v", values, s.Mean(), s.Std(), mean, std)
	}
}

func TestNoValues(t *testing.T) {
	var s Sums
	if s.Mean() != 0 || s.Std() != 0 {
		t.Errorf("mean %v, deviation %v", s.Mean(), s.Std())
	}
}
