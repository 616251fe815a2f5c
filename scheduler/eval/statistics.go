package eval

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// Interval is a mean with its 95% interval of MeanInterval from Low to High. With one sample both bounds
// equal the mean and carry no information.
type Interval struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Mean returns the mean of a metric over the seeds.
func (r Result) Mean(m Metric) float64 { return stat.Mean(r.Values(m), nil) }

// Values returns the metric of each seed, in the order of Comparison.Seeds.
func (r Result) Values(m Metric) []float64 {
	out := make([]float64, len(r.Outcomes))
	for i, o := range r.Outcomes {
		out[i] = m.Of(o)
	}
	return out
}

// Difference is a contender's metric minus the baseline's on the same seeds. Less is better, so a
// negative difference is an improvement.
type Difference struct {
	Interval
	// Relative is the difference as a fraction of the baseline's mean; nil if that mean is 0.
	Relative *float64 `json:"relative"`
	P        float64  `json:"p"` // two-sided, of Wilcoxon
	// Adjusted is P after Holm's correction for the differences that Differences returned together.
	Adjusted float64 `json:"-"`
}

// Samples returns the number of independent episodes: one for each seed, or one in all if the same pods
// arrived on every seed.
func (c *Comparison) Samples() int {
	if c.OneWorkload {
		return 1
	}
	return len(c.Seeds)
}

// Interval returns the mean of values, one for each seed, with its interval.
func (c *Comparison) Interval(values []float64) Interval {
	if c.Samples() < 2 {
		mean := stat.Mean(values, nil)
		return Interval{mean, mean, mean}
	}
	return MeanInterval(values)
}

// Difference returns the metric of r minus the baseline's, estimated from the seeds' differences. With one
// sample P is 1.
func (c *Comparison) Difference(r Result, m Metric) Difference {
	mine, theirs := r.Values(m), c.Results[0].Values(m)
	p := Wilcoxon(grains(mine, theirs))
	for i := range mine {
		mine[i] -= theirs[i]
	}
	d := Difference{Interval: c.Interval(mine), P: p}
	if c.Samples() < 2 {
		d.P = 1
	}
	if base := stat.Mean(theirs, nil); base != 0 {
		d.Relative = new(d.Mean / base)
	}
	return d
}

// Differences returns the differences of all results from the baseline, by metric and result, with p values
// that are adjusted for their number.
func (c *Comparison) Differences(metrics []Metric) [][]Difference {
	out := make([][]Difference, len(metrics))
	var p []float64
	for i, m := range metrics {
		for _, r := range c.Results[1:] {
			d := c.Difference(r, m)
			out[i], p = append(out[i], d), append(p, d.P)
		}
	}
	adjusted := Holm(p)
	for i := range out {
		for k := range out[i] {
			out[i][k].Adjusted = adjusted[i*len(out[i])+k]
		}
	}
	return out
}

// grain is the smallest difference that counts, relative to the largest value. Smaller ones come from
// the order of floating-point additions, and a rank test would count them like real ones.
const grain = 1e-9

// grains returns a - b, rounded to multiples of grain.
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
