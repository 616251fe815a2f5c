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
		{"depression", []float64{1.83 - 0.878, 0.50 - 0.647, 1.62 - 0.598, 2.48 - 2.05, 1.68 - 1.06, 1.88 - 1.29, 1.55 - 1.06, 3.06 - 3.14, 1.30 - 1.29}, 0.0390625},
		// Darwin's fifteen pairs of Zea mays, as in SciPy's documentation of scipy.stats.wilcoxon.
		{"maize", []float64{6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75}, 0.041259765625},
		{"ten of one sign", []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 2.0 / 1024},
		{"even", []float64{1, -2, -3, 4}, 1},
		// By hand: ranks 1.5 1.5 3 4, all positive: W = 10, mean 5, variance 7.5 - 6/48, z = 4.5/√7.375.
		{"ties", []float64{1, 1, 2, 3}, math.Erfc(4.5 / math.Sqrt(7.375) / math.Sqrt2)},
		// A zero leaves three: W = 6, mean 3, variance 3.5, z = 2.5/√3.5.
		{"a zero", []float64{0, 1, 2, 3}, math.Erfc(2.5 / math.Sqrt(3.5) / math.Sqrt2)},
	} {
		if got := Wilcoxon(c.differences); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The exact p equals the share found by enumerating every choice of signs.
func TestExactWilcoxonAgainstEnumeration(t *testing.T) {
	for n := 1; n <= 10; n++ {
		most := n * (n + 1) / 2
		for sum := range most + 1 {
			far := 0
			for signs := range 1 << n {
				s := 0
				for i := range n {
					if signs>>i&1 == 1 {
						s += i + 1
					}
				}
				if max(s, most-s) >= max(sum, most-sum) {
					far++
				}
			}
			if got, want := exactWilcoxon(n, sum), math.Min(float64(far)/math.Exp2(float64(n)), 1); math.Abs(got-want) > 1e-12 {
				t.Fatalf("n=%d, W=%d: %v, want %v", n, sum, got, want)
			}
		}
	}
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
