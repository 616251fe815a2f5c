package feature

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"
)

// by gives the rise of the standard deviation that the values themselves show.
func TestRise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 50).Draw(t, "values")
		i, d := rapid.IntRange(0, len(values)-1).Draw(t, "i"), rapid.Float64Range(0, 0.5).Draw(t, "d")
		var m moments
		for _, v := range values {
			m.Add(v)
		}
		got := m.rise(1).by(float32(values[i]+d), float32(d))
		before := stat.PopStdDev(values, nil)
		values[i] += d
		want := clamp(float32((stat.PopStdDev(values, nil) - before) * float64(len(values))))
		tolerance := 1e-4
		if before < 1e-2 { // float32's rounding of after shows under the root
			tolerance = 1e-3 * float64(len(values))
		}
		if math.Abs(float64(got-want)) > tolerance {
			t.Fatalf("rise %v, want %v", got, want)
		}
	})
}
