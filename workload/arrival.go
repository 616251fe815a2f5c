package workload

import (
	"cmp"
	"math"
	"slices"
)

// Arrival is a Deployment in time.
type Arrival struct {
	At         float64 // when its pods come; seconds, or steps of the plan that it is from
	Lifetime   float64 // of each of its pods from when it starts to run; +Inf for one that stays
	Deployment Deployment
}

// Trace is what arrived, in order of time. At is ascending, from 0.
type Trace []Arrival

// Pods is how many pods arrive.
func (t Trace) Pods() (n int) {
	for _, a := range t {
		n += a.Deployment.Replicas
	}
	return n
}

// Trace is the plan in time, a unit a step: Deployments live until they are deleted or until
// the next reset.
func (p Plan) Trace() Trace {
	var out Trace
	live := map[string]int{}
	for i, s := range p.Steps {
		switch s.Action {
		case Add:
			live[s.Deployment.Name] = len(out)
			out = append(out, Arrival{At: float64(i), Lifetime: math.Inf(1), Deployment: s.Deployment})
		case Delete:
			if j, ok := live[s.Deployment.Name]; ok {
				out[j].Lifetime = float64(i) - out[j].At
				delete(live, s.Deployment.Name)
			}
		case Reset:
			for _, j := range live {
				out[j].Lifetime = float64(i) - out[j].At
			}
			clear(live)
		}
	}
	return out.FromZero()
}

// Plan is the trace as steps: what arrives is added at its time, and deleted when its lifetime
// is over, whether or not it ran. Of what happens at once, deletions come first.
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

// FromZero orders by time, in place, what comes at once as it stood, and puts the first at 0.
func (t Trace) FromZero() Trace {
	slices.SortStableFunc(t, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	for i := len(t) - 1; i >= 0; i-- {
		t[i].At -= t[0].At
	}
	return t
}
