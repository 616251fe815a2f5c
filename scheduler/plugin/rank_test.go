package plugin

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// inOrder names nodes in the order of their indices.
func inOrder(i int) string { return string(rune(i)) }

// The order is kept, only the best has 100 (with random ties, all equal bests), and all scores are in
// 0 to 100.
func TestToNodeScores(t *testing.T) {
	raw := rapid.OneOf(
		rapid.SliceOfN(rapid.Float32Range(-math.MaxFloat32, math.MaxFloat32), 1, 300),
		rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 4), func(i int) float32 { return float32(i) }), 1, 50), // ties
		rapid.SliceOfN(rapid.Float32Range(1, 1.00001), 1, 50),                                             // almost equal
		rapid.SliceOfN(rapid.Float32Range(-1e-44, 1e-44), 1, 50),                                          // subnormal
	)
	rapid.Check(t, func(t *rapid.T) {
		raw := raw.Draw(t, "raw")
		out := make([]int8, len(raw))
		randomTies := rapid.Bool().Draw(t, "random ties")
		toNodeScores(raw, out, inOrder, randomTies)
		best := slices.Index(raw, slices.Max(raw))
		for i := range raw {
			if (out[i] == 100) != (i == best || randomTies && raw[i] == raw[best]) || out[i] < 0 {
				t.Fatalf("score %d of %v at %d, the best is at %d", out[i], raw[i], i, best)
			}
			for j := range raw {
				if raw[i] > raw[j] && out[i] < out[j] {
					t.Fatalf("%v > %v, but %d < %d", raw[i], raw[j], out[i], out[j])
				}
			}
		}
	})
}

// Scores that differ by a hundredth of the range keep a difference.
func TestToNodeScoresUsesTheRange(t *testing.T) {
	raw := make([]float32, 101)
	for i := range raw {
		raw[i] = 7 + float32(i)
	}
	out := make([]int8, len(raw))
	toNodeScores(raw, out, inOrder, false)
	if out[0] != 0 || out[100] != 100 || out[99] < 97 || out[50] < 48 || out[50] > 50 {
		t.Errorf("%v", out)
	}
}

func TestToNodeScoresOfNothing(t *testing.T) {
	toNodeScores(nil, nil, nil, false)
	if spread(nil) != 0 || spread([]float32{-1, 2, 0}) != 3 {
		t.Error("spread")
	}
}
