package eval

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"gnnsched/scheduler/sim"
)

// Metric is one figure of an outcome. Less is better for all of them.
type Metric struct {
	Name   string // of its column and in JSON
	Title  string // for people
	Digits int    // after the point
	Of     func(sim.Outcome) float64
	Detail bool // left out of tables for people, which are wide enough
	GPU    bool // left out of these where no node has GPUs
}

// The two that no report leaves out.
var (
	Objective   = Metric{"cost", "objective", 4, func(o sim.Outcome) float64 { return o.Cost }, false, false}
	Unscheduled = Metric{"unscheduled", "unscheduled", 1, func(o sim.Outcome) float64 { return float64(o.Unscheduled) }, false, false}
)

// Metrics are what is reported, in the order of the columns.
var Metrics = []Metric{
	Objective,
	{"cpuStd", "cpu std", 4, func(o sim.Outcome) float64 { return o.CPUStd }, false, false},
	{"cpuVariance", "cpu variance", 6, func(o sim.Outcome) float64 { return o.CPUVariance }, false, false},
	{"memoryStd", "memory std", 4, func(o sim.Outcome) float64 { return o.MemoryStd }, false, false},
	{"imbalance", "imbalance", 4, func(o sim.Outcome) float64 { return o.Imbalance }, false, false},
	Unscheduled,
	{"waited", "waited", 1, func(o sim.Outcome) float64 { return float64(o.Waited) }, false, false},
	{"nodesInUse", "nodes in use", 1, func(o sim.Outcome) float64 { return float64(o.NodesInUse) }, false, false},
	{"meanNodesInUse", "mean in use", 1, func(o sim.Outcome) float64 { return o.MeanNodesInUse }, false, false},
	{"zoneStd", "zone std", 4, func(o sim.Outcome) float64 { return o.ZoneStd }, true, false},
	{"fragmentation", "fragmentation", 4, func(o sim.Outcome) float64 { return o.Fragmentation }, true, false},
	{"pending", "pending", 1, func(o sim.Outcome) float64 { return o.Pending }, true, false},
	{"evicted", "evicted", 1, func(o sim.Outcome) float64 { return float64(o.Evicted) }, true, false},
	{"gpuIdle", "gpu idle", 4, gpuIdle, false, true},
	{"gpuStranded", "gpu stranded", 4, gpuStranded, false, true},
}

// gpuIdle is the fraction of the GPUs that nobody uses, 0 where there are none.
func gpuIdle(o sim.Outcome) float64 {
	if o.GPU == nil {
		return 0
	}
	return 1 - o.GPU.Allocation
}

// gpuStranded is the fraction of the GPUs that is idle for want of CPU, 0 where there are none.
func gpuStranded(o sim.Outcome) float64 {
	if o.GPU == nil {
		return 0
	}
	return o.GPU.Stranded
}

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
