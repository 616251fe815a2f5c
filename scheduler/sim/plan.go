package sim

import (
	"math"

	"gnnsched/scheduler/cluster"
)

// Arrival is one pod of an episode's workload.
type Arrival struct {
	Pod *cluster.Pod // shared by the replicas of a deployment
	// Lifetime is for how many arrivals it runs, counted from when it got its node or from the
	// end of the fill, whichever is later; +Inf where it stays.
	Lifetime float64
}

// Plan is the workload of the episode in the order of arrival. No choice changes it.
func (e *Env) Plan() []Arrival {
	plan := make([]Arrival, len(e.arrivals.pods))
	for i := range plan {
		plan[i] = Arrival{Pod: &e.deployment(int32(i)).pod, Lifetime: math.Inf(1)}
		if e.arrivals.lifetime != nil {
			plan[i].Lifetime = e.arrivals.lifetime[i]
		}
	}
	return plan
}

// Next is which arrival of Plan is pending; -1 when the episode is over.
func (e *Env) Next() int { return int(e.pending) }

// Waiting are the arrivals of Plan that wait for a node, less the pending one.
func (e *Env) Waiting() []int { return numbers(e.waiting, func(pod int32) int32 { return pod }) }

// Leaving are the arrivals of Plan that run now and will leave one day, in no order.
func (e *Env) Leaving() []int {
	return numbers(e.running, func(d departure) int32 { return d.pod })
}

func numbers[T any](list []T, of func(T) int32) []int {
	out := make([]int, len(list))
	for i, x := range list {
		out[i] = int(of(x))
	}
	return out
}
