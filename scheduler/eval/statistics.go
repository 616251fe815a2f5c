package eval

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Interval is an estimate of a mean. Low and High are the bounds that hold 95% of the
// bootstrap's means; with one seed they are the mean itself and say nothing.
type Interval struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Mean is the mean of a metric over the seeds.
func (r Result) Mean(m Metric) float64 { return stat.Mean(r.Values(m), nil) }

// Values are the metric by seed.
func (r Result) Values(m Metric) []float64 {
	out := make([]float64, len(r.Outcomes))
	for i, o := range r.Outcomes {
		out[i] = m.Of(o)
	}
	return out
}

// Difference is how much more of a metric a contender has than the baseline on the same
// seeds. Less is better, so what is negative is an improvement.
type Difference struct {
	Interval
	// Relative is the difference of the means as a fraction of the baseline's mean; nil where
	// that is zero.
	Relative *float64 `json:"relative"`
	P        float64  `json:"p"` // of Wilcoxon
}

// Difference is how much more of the metric r has than the baseline, seed by seed.
func (c *Comparison) Difference(r Result, m Metric) Difference {
	mine, theirs := r.Values(m), c.Results[0].Values(m)
	p := Wilcoxon(grains(mine, theirs))
	for i := range mine {
		mine[i] -= theirs[i]
	}
	d := Difference{Interval: Bootstrap(mine), P: p}
	if base := stat.Mean(theirs, nil); base != 0 {
		d.Relative = new(d.Mean / base)
	}
	return d
}

// grain is the least difference that is one, relative to the largest value: what is less comes
// from the order in which floats were added up, and would count as much in a test by ranks.
const grain = 1e-9

// grains returns a - b in grains.
func grains(a, b []float64) []float64 {
	var most float64
	for i := range a {
		most = max(most, math.Abs(a[i]), math.Abs(b[i]))
	}
	out := make([]float64, len(a))
	for i := range a {
		if most > 0 {
			out[i] = math.Round((a[i] - b[i]) / (grain * most))
		}
	}
	return out
}

const resamples = 10_000

// Bootstrap estimates the mean of what values were drawn from, by the percentile bootstrap
// (Efron 1979) with 10,000 resamples. It is deterministic.
func Bootstrap(values []float64) Interval {
	rng := rand.New(rand.NewPCG(95, uint64(len(values))))
	means := make([]float64, resamples)
	for i := range means {
		var sum float64
		for range values {
			sum += values[rng.IntN(len(values))]
		}
		means[i] = sum / float64(len(values))
	}
	slices.Sort(means)
	return Interval{
		Mean: stat.Mean(values, nil),
		Low:  stat.Quantile(0.025, stat.Empirical, means, nil),
		High: stat.Quantile(0.975, stat.Empirical, means, nil),
	}
}
