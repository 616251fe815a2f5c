package sim

import (
	"math"

	"gnnsched/internal/cluster"
)

// Arrival is one pod of an episode's workload.
type Arrival struct {
	Pod *cluster.Pod // shared by the replicas of a deployment
	At  float64      // arrival time, in the unit of Config.Arrivals or of the trace
	// Lifetime is how long the pod runs, counted from its placement or from the end of the fill,
	// whichever is later; +Inf if it stays.
	Lifetime float64
}

// Plan returns the workload of the episode in order of arrival. It does not depend on the choices.
func (e *Env) Plan() []Arrival {
	plan := make([]Arrival, len(e.arrivals.pods))
	for i := range plan {
		plan[i] = Arrival{Pod: &e.deployment(int32(i)).pod, At: e.arrivals.at[i], Lifetime: math.Inf(1)}
		if e.arrivals.lifetime != nil {
			plan[i].Lifetime = e.arrivals.lifetime[i]
		}
	}
	return plan
}

// Next returns the index in Plan of the pending pod; -1 when the episode is over.
func (e *Env) Next() int { return int(e.pending) }

// Waiting returns the indices in Plan of the pods that wait for a node, without the pending pod.
func (e *Env) Waiting() []int {
	out := make([]int, len(e.waiting))
	for i, pod := range e.waiting {
		out[i] = int(pod)
	}
	return out
}

// Leaving returns the indices in Plan of the running pods that will leave, in no particular order.
func (e *Env) Leaving() []int {
	out := make([]int, len(e.running))
	for i, d := range e.running {
		out[i] = int(d.pod)
	}
	return out
}
