package sim

import (
	"math"
	"testing"
)

func TestRelative(t *testing.T) {
	than := Outcome{Cost: 0.1, MeanCost: 0.1, Arrived: 100, Waited: 4}
	for _, x := range []struct {
		name string
		o    Outcome
		want float64
	}{
		{"the same", than, 1},
		{"half the cost", Outcome{Cost: 0.05, MeanCost: 0.05, Arrived: 100, Waited: 4}, 0.5},
		{"one pod more waits", Outcome{Cost: 0.1, MeanCost: 0.1, Arrived: 100, Waited: 5}, 1.01},
	} {
		if got := x.o.Relative(than, 1); math.Abs(got-x.want) > 1e-3 {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
	}
}
