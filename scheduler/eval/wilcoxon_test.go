package eval

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestWilcoxon(t *testing.T) {
	for _, c := range []struct {
		name        string
		differences []float64
		want        float64
	}{
		{"nothing", nil, 1},
		{"no difference", []float64{0, 0, 0}, 1},
		// The depression scores of Hollander & Wolfe (1973), p. 29; p from R's wilcox.test(paired = TRUE).
		{"depression", []float64{1.83 - 0.878, 0.50 - 0.647, 1.62 - 0.598, 2.48 - 2.05, 1.68 - 1.06, 1.88 - 1.29, 1.55 - 1.06, 3.06 - 3.14,
			1.30 - 1.29}, 0.0390625},
		// Darwin's fifteen pairs of Zea mays, as in SciPy's documentation of scipy.stats.wilcoxon.
		{"maize", []float64{6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75}, 0.041259765625},
		{"ten of one sign", []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 2.0 / 1024},
		{"even", []float64{1, -2, -3, 4}, 1},
		{"ties", []float64{1, 1, 2, 3}, 2.0 / 16},
		{"five equal ones", []float64{1, 1, 1, 1, 1}, 2.0 / 32}, // the normal approximation would give 0.037
		// Ranks 1.5 1.5 3; one 1.5 is negative: 4 of the 8 signs have a sum of 1.5 or less, or of 4.5 or more.
		{"a tie of two signs", []float64{-1, 1, 2}, 6.0 / 8},
		{"a zero leaves three", []float64{0, 1, 2, 3}, 2.0 / 8},
		// By hand: fifty equal ones have ranks 25.5: W = 1275, mean 637.5, variance 10731.25 - 124950/48.
		{"fifty", slices.Repeat([]float64{1}, 50), math.Erfc(637 / math.Sqrt(10731.25-124950.0/48) / math.Sqrt2)},
	} {
		if got := Wilcoxon(c.differences); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// For few differences, also with zeros and ties, p equals the fraction of sign patterns that are at least as one-sided.
func TestExactWilcoxonAgainstEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SliceOfN(rapid.Map(rapid.IntRange(-6, 6), func(i int) float64 { return float64(i) }), 1, 9).Draw(t, "differences")
		ranks, sum, _ := signedRanks(d)
		most := 0
		for _, r := range ranks {
			most += r
		}
		far := 0
		for signs := range 1 << len(ranks) {
			s := 0
			for i, r := range ranks {
				if signs>>i&1 == 1 {
					s += r
				}
			}
			if max(s, most-s) >= max(sum, most-sum) {
				far++
			}
		}
		if got, want := Wilcoxon(d), float64(far)/math.Exp2(float64(len(ranks))); math.Abs(got-want) > 1e-12 {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// p is a probability that does not change with the order, the scale or the common sign.
func TestWilcoxonProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SliceOfN(rapid.Map(rapid.IntRange(-30, 30), func(i int) float64 { return float64(i) }), 1, 70).Draw(t, "differences")
		p := Wilcoxon(d)
		if !(p > 0 && p <= 1) {
			t.Fatalf("p = %v", p)
		}
		other := slices.Clone(d)
		slices.Reverse(other)
		for i := range other {
			other[i] *= -4
		}
		if q := Wilcoxon(other); math.Abs(p-q) > 1e-9 {
			t.Fatalf("p = %v, reversed, negated and scaled %v", p, q)
		}
	})
}
