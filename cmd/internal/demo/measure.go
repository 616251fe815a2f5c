package demo

import (
	"fmt"
	"math"
	"time"

	"gnnsched/scheduler/sim"
)

// result holds the figures of one scheduler over its rounds.
type result struct {
	scheduler string
	rounds    []round
	attempt   time.Duration // median duration of a scheduling attempt
	fallbacks float64       // decisions that upstream's scoring made because the network failed
}

// round holds the figures of one workload. GPUs are in thousandths of a device.
type round struct {
	pods, bound            int
	cpuStd, memoryStd      float64 // of the nodes' fractions
	gpus, allocated, asked int64
}

// mean returns the mean of a figure over the rounds; NaN without rounds.
func (r result) mean(of func(round) float64) float64 {
	sum := 0.0
	for _, x := range r.rounds {
		sum += of(x)
	}
	return sum / float64(len(r.rounds))
}

// sum returns the sum of a figure over the rounds.
func (r result) sum(of func(round) float64) float64 {
	return r.mean(of) * float64(len(r.rounds))
}

// measure is a row of a part's table.
type measure struct {
	name   string
	of     func(result) float64
	format func(float64) string
	more   bool // more is better
}

var (
	cpuSpread = measure{name: "CPU, standard deviation", format: decimals, of: func(r result) float64 {
		return r.mean(func(x round) float64 { return x.cpuStd })
	}}
	memorySpread = measure{name: "memory, standard deviation", format: decimals, of: func(r result) float64 {
		return r.mean(func(x round) float64 { return x.memoryStd })
	}}
	pending = measure{name: "pods without a node", format: whole, of: func(r result) float64 {
		return r.sum(func(x round) float64 { return float64(x.pods - x.bound) })
	}}
	allocated = measure{name: "GPUs allocated", format: percent, more: true, of: func(r result) float64 {
		return r.sum(func(x round) float64 { return float64(x.allocated) }) / r.sum(func(x round) float64 { return float64(x.gpus) })
	}}
	lacking = measure{name: "GPUs that pods wait for", format: tenths, of: func(r result) float64 {
		return r.sum(func(x round) float64 { return float64(x.asked-x.allocated) / 1000 })
	}}
	attempt = measure{name: "scheduling attempt, median", format: short, of: func(r result) float64 { return r.attempt.Seconds() }}
)

// judgement is the outcome of one measure.
type judgement int

const (
	same judgement = iota
	won
	lost
)

// closer is the relative difference below which two values count as the same.
const closer = 0.01

// judge compares the learned scheduler's value with the other one's. It returns the change in words.
func (m measure) judge(learned, base float64) (judgement, string) {
	change := (learned - base) / base
	switch {
	case learned == base || math.Abs(change) < closer:
		return same, "same"
	case math.IsInf(change, 0) || math.IsNaN(change): // of nothing
		change = math.NaN()
	}
	verdict, word := lost, "worse"
	if (learned > base) == m.more {
		verdict, word = won, "better"
	}
	if math.IsNaN(change) {
		return verdict, word
	}
	return verdict, fmt.Sprintf("%+.0f%% %s", 100*change, word)
}

// figure is a column of a comparison in the simulator.
type figure struct {
	name   string
	of     func(sim.Outcome) float64
	format func(float64) string
	more   bool // more is better
}

var (
	imbalance   = figure{name: "mean std", format: decimals, of: func(o sim.Outcome) float64 { return (o.CPUStd + o.MemoryStd) / 2 }}
	unscheduled = figure{name: "without a node", format: tenths, of: func(o sim.Outcome) float64 { return float64(o.Unscheduled) }}
	allocation  = figure{name: "GPUs allocated", format: percent, more: true, of: func(o sim.Outcome) float64 { return o.GPU.Allocation }}
)

func whole(v float64) string    { return fmt.Sprintf("%.0f", v) }
func tenths(v float64) string   { return fmt.Sprintf("%.1f", v) }
func decimals(v float64) string { return fmt.Sprintf("%.4f", v) }
func percent(v float64) string  { return fmt.Sprintf("%.1f%%", 100*v) }

// short writes a duration in seconds with three digits.
func short(seconds float64) string {
	switch {
	case seconds >= 1:
		return fmt.Sprintf("%.2f s", seconds)
	case seconds >= 1e-3:
		return fmt.Sprintf("%.2f ms", seconds*1e3)
	}
	return fmt.Sprintf("%.0f µs", seconds*1e6)
}
