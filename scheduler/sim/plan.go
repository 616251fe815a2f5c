package sim

import (
	"math"

	"gnnsched/internal/cluster"
)

// Arrival is one pod of an episode's workload.
type Arrival struct {
	Pod *cluster.Pod // shared by the replicas of a deployment
	At  float64      // when it arrives, in the unit of Config.Arrivals or of the trace
	// Lifetime is for how long it runs, counted from when it got its node or from the end of
	// the fill, whichever is later; +Inf where it stays.
	Lifetime float64
}

// Plan is the workload of the episode in the order of arrival. No choice changes it.
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

// Next is which arrival of Plan is pending; -1 when the episode is over.
func (e *Env) Next() int { return int(e.pending) }

// Waiting are the arrivals of Plan that wait for a node, less the pending one.
func (e *Env) Waiting() []int {
	out := make([]int, len(e.waiting))
	for i, pod := range e.waiting {
		out[i] = int(pod)
	}
	return out
}

// Leaving are the arrivals of Plan that run now and will leave one day, in no order.
func (e *Env) Leaving() []int {
	out := make([]int, len(e.running))
	for i, d := range e.running {
		out[i] = int(d.pod)
	}
	return out
}
