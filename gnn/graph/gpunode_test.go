package graph

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/gnn/feature"
)

// The mean of the two knots, weighted as Knots says, is the free part, and both knots exist.
func TestKnots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free := rapid.Float32Range(-1, 2).Draw(t, "free")
		k, next := Knots(free)
		if k < 0 || k > feature.DeviceKnots-2 || next < 0 || next > 1 {
			t.Fatalf("%v: knot %d and %v of the next", free, k, next)
		}
		want := min(max(float64(free), 0), 1)
		if got := (float64(k) + float64(next)) / (feature.DeviceKnots - 1); math.Abs(got-want) > 1e-6 {
			t.Fatalf("%v became %v", free, got)
		}
	})
}
