package tracerun

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/sim"
)

// stay is a pod's time on the cluster, in seconds of the trace. Times that have not come are +Inf.
type stay struct {
	pod                   cluster.Pod
	initial               bool // it ran at the start, or was rejected
	appeared, bound, left float64
	refused               bool // a scheduler reported that it fits nowhere
}

// stays returns the pods that appeared, in the order of their numbers.
func (p *replay) stays() (out []stay) {
	at := func(t time.Time) float64 {
		if t.IsZero() {
			return math.Inf(1)
		}
		return p.time(t)
	}
	for i := range p.total() {
		if s := p.log.seenOf(p.name(i)); s != nil {
			asked := p.pods[p.of(i).Pod].Shape().Requests // the pod lacks the requests of its claims
			s.pod.Requests.GPU, s.pod.Requests.GPUMilli = asked.GPU, asked.GPUMilli
			out = append(out, stay{s.pod, i < len(p.drawn.Running), at(s.appeared), at(s.bound), at(s.left), s.refused})
		}
	}
	return out
}

// outcomeOf sums up the stays from the end of the warm-up to the end. The capacity is in thousandths of a GPU.
func outcomeOf(stays []stay, from, end float64, capacity int64) *sim.SteadyOutcome {
	o := &sim.SteadyOutcome{}
	within := func(a, b float64) float64 { return max(min(b, end)-max(a, from), 0) }
	var waits []sim.Wait
	for i := range stays {
		s := &stays[i]
		if s.appeared > end {
			continue
		}
		if s.initial && math.IsInf(s.bound, 1) {
			o.Rejected++
			continue
		}
		o.Allocation += within(s.bound, s.left) * float64(s.pod.Requests.TotalGPUMilli())
		if s.initial {
			continue
		}
		o.Waiting += within(s.appeared, min(s.bound, s.left))
		waits = append(waits, sim.Wait{Pod: &s.pod, Arrived: s.appeared, Until: min(s.bound, end), Waited: s.refused, Waiting: s.bound > end})
	}
	o.Allocation /= (end - from) * float64(max(capacity, 1))
	o.Waiting /= end - from
	o.AddWaits(from, waits)
	return o
}

// timing holds the cluster's durations, in real time.
type timing struct {
	AtOnce float64 `json:"atOnceSeconds"` // mean time to a node of the pods that were never refused
	Late   float64 `json:"lateSeconds"`   // 95th percentile of the delay of the pods' creation
}

// timing measures the pods that arrived after the warm-up, which is in seconds of the trace.
func (p *replay) timing(from float64) (out timing) {
	var atOnce, late []float64
	for i, due := range p.due {
		s := p.log.seenOf(p.name(len(p.drawn.Running) + i))
		if s == nil || p.time(due) < from {
			continue
		}
		late = append(late, max(s.appeared.Sub(due).Seconds(), 0))
		if !s.refused && !s.bound.IsZero() {
			atOnce = append(atOnce, s.bound.Sub(s.appeared).Seconds())
		}
	}
	if len(atOnce) > 0 {
		out.AtOnce = stat.Mean(atOnce, nil)
	}
	if len(late) > 0 {
		slices.Sort(late)
		out.Late = stat.Quantile(0.95, stat.Empirical, late, nil)
	}
	return out
}
