package workload

import (
	"cmp"
	"math"
	"slices"
)

// Arrival is a Deployment with times. They are in seconds, or in steps if the arrival comes
// from a plan without times.
type Arrival struct {
	At         float64 // when the pods arrive
	Lifetime   float64 // run time of each pod; +Inf for pods that stay
	Deployment Deployment
}

// Trace is a list of arrivals by ascending time. The first one is at 0.
type Trace []Arrival

// Pods returns the number of pods that arrive.
func (t Trace) Pods() (n int) {
	for _, a := range t {
		n += a.Deployment.Replicas
	}
	return n
}

// Trace returns the plan's Deployments with times, counting one unit of time for each step.
// A Deployment lives until it is deleted or until the next reset.
func (p Plan) Trace() Trace {
	var out Trace
	running := map[string]int{}
	for i, s := range p.Steps {
		switch s.Action {
		case Add:
			running[s.Deployment.Name] = len(out)
			out = append(out, Arrival{At: float64(i), Lifetime: math.Inf(1), Deployment: s.Deployment})
		case Delete:
			if j, ok := running[s.Deployment.Name]; ok {
				out[j].Lifetime = float64(i) - out[j].At
				delete(running, s.Deployment.Name)
			}
		case Reset:
			for _, j := range running {
				out[j].Lifetime = float64(i) - out[j].At
			}
			clear(running)
		}
	}
	return out.FromZero()
}

// Plan returns the trace as steps. Each Deployment is added at its time and deleted when its
// lifetime has passed since then, even if it never ran. At equal times, deletions come first.
func (t Trace) Plan() Plan {
	var p Plan
	for _, a := range t {
		p.Steps = append(p.Steps, Step{Action: Add, Deployment: a.Deployment, At: a.At})
		if !math.IsInf(a.Lifetime, 1) {
			p.Steps = append(p.Steps, Step{Action: Delete, Deployment: a.Deployment, At: a.At + a.Lifetime})
		}
	}
	slices.SortStableFunc(p.Steps, func(a, b Step) int { return cmp.Or(cmp.Compare(a.At, b.At), int(b.Action)-int(a.Action)) })
	return p
}

// FromZero sorts the trace by time and shifts it so that the first arrival is at 0. Arrivals
// at equal times keep their order. It changes the trace in place and returns it.
func (t Trace) FromZero() Trace {
	slices.SortStableFunc(t, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	for i := len(t) - 1; i >= 0; i-- {
		t[i].At -= t[0].At
	}
	return t
}
