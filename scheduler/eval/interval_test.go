package eval

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The interval contains the true mean in about 95% of the cases, for few values and for many, and for any distribution. Only very skewed
// values (a lognormal with a skewness of 6) need more than ten.
func TestMeanIntervalCovers(t *testing.T) {
	lognormal := func(sigma float64) func(*rand.Rand) float64 {
		return func(r *rand.Rand) float64 { return math.Exp(sigma * r.NormFloat64()) }
	}
	for _, c := range []struct {
		name  string
		draw  func(*rand.Rand) float64
		mean  float64
		least map[int]float64 // of the share of intervals that contain the mean, by the number of values
	}{
		{"normal", (*rand.Rand).NormFloat64, 0, map[int]float64{4: 0.93, 10: 0.94, 100: 0.94}},
		{"uniform", (*rand.Rand).Float64, 0.5, map[int]float64{4: 0.93, 10: 0.94, 100: 0.94}},
		{"exponential", (*rand.Rand).ExpFloat64, 1, map[int]float64{4: 0.90, 10: 0.925, 100: 0.94}},
		{"lognormal with skewness 0.8", lognormal(0.25), math.Exp(0.25 * 0.25 / 2), map[int]float64{4: 0.93, 10: 0.94, 100: 0.94}},
		{"lognormal with skewness 1.8", lognormal(0.5), math.Exp(0.5 * 0.5 / 2), map[int]float64{4: 0.92, 10: 0.93, 100: 0.94}},
		{"lognormal with skewness 6.2", lognormal(1), math.Exp(0.5), map[int]float64{10: 0.89, 100: 0.925}},
		{"difference of two exponentials", func(r *rand.Rand) float64 { return r.ExpFloat64() - r.ExpFloat64() }, 0,
			map[int]float64{4: 0.93, 10: 0.93, 100: 0.935}},
	} {
		for n, least := range c.least {
			r := rand.New(rand.NewPCG(95, uint64(n)))
			values := make([]float64, n)
			const trials = 5000
			hits := 0
			for range trials {
				for i := range values {
					values[i] = c.draw(r)
				}
				if v := meanInterval(values); v.Low <= c.mean && c.mean <= v.High {
					hits++
				}
			}
			share := float64(hits) / trials
			t.Logf("%s, %d values: %.3f", c.name, n, share)
			if share < least || share > 0.985 {
				t.Errorf("%s: %.3f of the intervals of %d values contain the mean, want %.3f to 0.985", c.name, share, n, least)
			}
		}
	}
}

// Without skewness the interval is Student's: for the values 1 to 5, 3 ± 2.776·√0.5.
func TestMeanIntervalOfSymmetricValues(t *testing.T) {
	got := meanInterval([]float64{1, 2, 3, 4, 5})
	const half = 1.963243 // 2.776445 · 0.707107
	if got.Mean != 3 || math.Abs(got.Low-3+half) > 1e-5 || math.Abs(got.High-3-half) > 1e-5 {
		t.Errorf("%+v, want 3 ± %v", got, half)
	}
	for _, equal := range [][]float64{{2}, {2, 2, 2}} {
		if got := meanInterval(equal); got != (Interval{2, 2, 2}) {
			t.Errorf("%v: %+v", equal, got)
		}
	}
}

// unskewed inverts Hall's transformation.
func TestUnskewed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Float64Range(2, 1000).Draw(t, "n")
		g := rapid.Float64Range(-3, 3).Draw(t, "skewness")
		q := rapid.Float64Range(-13, 13).Draw(t, "quantile")
		x := unskewed(q, g, n)
		root := math.Sqrt(n)
		if back := x + g*x*x/(3*root) + g*g*x*x*x/(27*n) + g/(6*root); math.Abs(back-q) > 1e-4*(1+x*x) {
			t.Fatalf("%v gives %v, and that %v", q, x, back)
		}
	})
}

// The interval contains the mean, and it shifts, scales and turns with the values.
func TestMeanIntervalProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-100, 100), 1, 12).Draw(t, "values")
		v := meanInterval(values)
		const tiny = 1e-9
		if v.Low > v.Mean+tiny || v.High < v.Mean-tiny {
			t.Fatalf("%+v of %v", v, values)
		}
		if slices.Max(values)-slices.Min(values) < 1e-3 {
			return // equal except for rounding
		}
		moved := slices.Clone(values)
		for i := range moved {
			moved[i] = -2*moved[i] + 7
		}
		size := 1e-6 * (1 + v.High - v.Low)
		if w := meanInterval(moved); math.Abs(w.Low+2*v.High-7) > size || math.Abs(w.High+2*v.Low-7) > size {
			t.Fatalf("%+v, times -2 and moved by 7: %+v", v, w)
		}
	})
}

func TestHolm(t *testing.T) {
	// R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
	got, want := holm([]float64{0.01, 0.04, 0.03, 0.005}), []float64{0.03, 0.06, 0.06, 0.02}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-15 {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOf(rapid.Float64Range(0, 1)).Draw(t, "p")
		for i, x := range holm(p) {
			if x < p[i] || x > min(float64(len(p))*p[i], 1)+1e-12 {
				t.Fatalf("%v became %v of %v", p[i], x, p)
			}
			for k, y := range holm(p) {
				if p[i] < p[k] && x > y {
					t.Fatalf("the order of %v and %v changed", p[i], p[k])
				}
			}
		}
	})
}

// With 20 policies that differ by chance alone, one or more are called significant in 5% of the
// comparisons at most. Without the correction it would be about 64%.
func TestDifferencesByChance(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const trials, policies, seeds = 400, 20, 12
	wrong, uncorrected := 0, 0
	for range trials {
		c := made(seeds)
		c.Results = c.Results[:0]
		for range policies + 1 {
			x := Result{}
			for range seeds {
				o := made(1).Results[0].Outcomes[0]
				o.Cost = r.NormFloat64()
				x.Outcomes = append(x.Outcomes, o)
			}
			c.Results = append(c.Results, x)
		}
		found, raw := 0, 0
		for _, d := range c.Differences([]Metric{Objective})[0] {
			if d.Mark == Lower || d.Mark == Higher {
				found++
			}
			if d.P < level {
				raw++
			}
		}
		wrong += min(found, 1)
		uncorrected += min(raw, 1)
	}
	if wrong > trials*8/100 || uncorrected < trials*3/10 {
		t.Errorf("of %d comparisons, %d have a significant difference, %d without the correction", trials, wrong, uncorrected)
	}
}
