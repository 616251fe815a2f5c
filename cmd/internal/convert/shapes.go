package convert

import (
	"fmt"
	"math"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/workload"
	"gnnsched/workload/usage"
)

// levels is the number of different values in a series, so that it stays short as text.
const levels = 1000

// secondsOfDay is the number of seconds in a day.
const secondsOfDay = 86400

// Shapes returns a shape for each machine: it requests the machine's size, and has the machine's usage at the same time of day. Each pod
// begins on another day of the series; a series of more than a day is cut to whole days. If a day has no whole number of steps, or the
// series is shorter than one, pods begin anywhere in it. With a percentile over 0 the shape requests that percentile of the machine's
// usage, where it was measured.
func (w *measuredWorkload) Shapes(percentile float64) ([]workload.Shape, error) {
	out := make([]workload.Shape, 0, len(w.Machines))
	for _, m := range w.Machines {
		s := workload.Shape{
			Name: m.Name, Weight: 1, Usage: &usage.Model{},
			Requests: cluster.Resources{MilliCPU: int64(math.Round(m.Cores * 1000)), Memory: m.Memory, Pods: 1},
		}
		for d, values := range m.Used {
			full := 0.0
			switch usage.Dimension(d) {
			case usage.CPU:
				full = m.Cores
			case usage.Memory:
				full = float64(m.Memory)
			}
			s.Usage.Curves[d] = m.curve(values, full)
		}
		if cpu := m.Used[usage.CPU]; cpu != nil && percentile > 0 {
			s.Requests.MilliCPU = int64(math.Ceil(percentileOf(cpu, percentile) * 1000))
		}
		if memory := m.Used[usage.Memory]; memory != nil && percentile > 0 {
			s.Requests.Memory = int64(math.Ceil(percentileOf(memory, percentile)))
		}
		if err := s.Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// stepsOfDay returns the number of steps in a day; 0 if that is no whole number, or the series is shorter.
func (m measuredMachine) stepsOfDay() int {
	steps := secondsOfDay / m.Step
	longest := 0
	for _, x := range m.Used {
		longest = max(longest, len(x))
	}
	if steps != math.Floor(steps) || int(steps) > longest {
		return 0
	}
	return int(steps)
}

// percentileOf returns the smallest value that the given per cent of the values do not exceed.
func percentileOf(values []float32, percent float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	i := int(math.Ceil(percent/100*float64(len(sorted)))) - 1
	return float64(sorted[max(i, 0)])
}

// curve returns the curve of measured values; nil without any. A thousandth of full is one unit of the series; if full
// is 0, a thousandth of the largest value.
func (m measuredMachine) curve(values []float32, full float64) usage.Curve {
	if n := m.stepsOfDay(); n > 0 {
		values = values[:len(values)/n*n]
	}
	if len(values) == 0 {
		return nil
	}
	if full == 0 {
		full = float64(slices.Max(values))
	}
	if full == 0 {
		return usage.Constant(0)
	}
	out := make([]float32, len(values))
	same := true
	for i, v := range values {
		out[i] = float32(math.Round(float64(v) / full * levels))
		same = same && out[i] == out[0]
	}
	unit := full / levels
	if same {
		return usage.Constant(float64(out[0]) * unit)
	}
	offset := math.Mod(secondsOfDay-math.Mod(m.First, secondsOfDay), secondsOfDay)
	return &usage.Series{Step: m.Step, Scale: unit, Values: out, Offset: offset, Clock: true, RandomStart: true}
}

// longestBurst is the longest time between the begins of two bursts of a job, in seconds.
const longestBurst = 3600

// Arrivals returns an arrival for each job. A job requests its size, or nothing without requests. It has its recorded work, and its peak
// usage in bursts, or an even usage if its mean is close to its peak.
func (w *measuredWorkload) Arrivals(requests bool) (workload.Trace, error) {
	out := make(workload.Trace, 0, len(w.Jobs))
	for _, j := range w.Jobs {
		d := workload.Deployment{Name: j.Name, Replicas: 1}
		d.Shape.Requests.Pods = 1
		if requests {
			d.Shape.Requests.MilliCPU = int64(math.Round(j.Cores * 1000))
		}
		m := &usage.Model{Work: j.Mean * j.Lifetime}
		m.Curves[usage.CPU] = usage.Constant(j.Mean)
		if every := j.Lifetime / math.Ceil(j.Lifetime/longestBurst); every >= 1 && j.Max > j.Mean*1.05 {
			m.Curves[usage.CPU] = usage.Bursts{High: j.Max, Every: every, Length: every * j.Mean / j.Max}
		}
		d.Shape.Usage = m
		if err := d.Shape.Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", j.Name, err)
		}
		out = append(out, workload.Arrival{At: j.Arrival, Lifetime: j.Lifetime, Deployment: d})
	}
	return out.FromZero(), nil
}
