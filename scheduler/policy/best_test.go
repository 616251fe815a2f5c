package policy

import (
	"math"
	"testing"
)

func TestBest(t *testing.T) {
	for want, scores := range map[int][]float32{-1: nil, 0: {3, 3, 3}, 1: {-2, -1, -1.5}, 2: {float32(math.Inf(-1)), 0, 1}} {
		if got := Best(scores); got != want {
			t.Errorf("%v: %d, want %d", scores, got, want)
		}
	}
}
