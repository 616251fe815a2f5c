package tracerun

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/sim"
)

// stay is a pod's time on the cluster, in seconds of the trace. Times that have not come are +Inf.
type stay struct {
	pod                   cluster.Pod
	initial               bool // it ran at the start, or was rejected
	appeared, bound, left float64
	refused               bool // a scheduler reported that it fits nowhere
}

// placed reports whether a pod ever got a node. One that never appeared is nil.
func placed(s *testbed.SeenPod) bool { return s != nil && !s.Bound.IsZero() }

// stays returns the pods that appeared, in the order of their numbers.
func (p *replay) stays() (out []stay) {
	at := func(t time.Time) float64 {
		if t.IsZero() {
			return math.Inf(1)
		}
		return p.time(t)
	}
	for i, d := range p.pods {
		if s := p.log.Seen(d.Name); s != nil {
			pod, _ := kube.Pod(s.Pod) // this program wrote its request
			asked := d.Shape.Requests // the pod lacks the requests of its claims
			pod.Requests.GPU, pod.Requests.GPUMilli = asked.GPU, asked.GPUMilli
			out = append(out, stay{pod, i < p.running, at(s.Appeared), at(s.Bound), at(s.Left), s.Refused != nil})
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
		s := p.log.Seen(p.pods[p.running+i].Name)
		if s == nil || p.time(due) < from {
			continue
		}
		late = append(late, max(s.Appeared.Sub(due).Seconds(), 0))
		if s.Refused == nil && placed(s) {
			atOnce = append(atOnce, s.Bound.Sub(s.Appeared).Seconds())
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
