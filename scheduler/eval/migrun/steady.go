package migrun

import (
	"context"

	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

// Times of Steady, in mean lifetimes of pods.
const (
	warmUp  = 5.0
	measure = 20.0
)

// SteadyLoads are the offered loads of Steady, over the compute slices.
var SteadyLoads = []float64{0.8, 0.9, 0.95, 1.05}

// Queued is what happened after the warm-up where pods come and go. Times are in mean lifetimes.
type Queued struct {
	Load float64 `json:"load"`
	sim.PartitionOutcome
}

// Unscheduled returns the number of pods without a node at the end.
func (q Queued) Unscheduled() (n int) {
	for _, l := range q.Left {
		n += l
	}
	return n
}

// Wait returns the mean wait of the pods of some profiles.
func (q Queued) Wait(profiles ...mig.Profile) float64 {
	waited, arrived := 0.0, 0
	for _, p := range profiles {
		waited, arrived = waited+q.Waited[p], arrived+q.Arrived[p]
	}
	return waited / float64(max(arrived, 1))
}

// Steady plays pods that come and go. A pod that fits nowhere waits, and is tried again whenever a pod has left, in the order of arrival, as by
// kube-scheduler.
func (m Machines) Steady(ctx context.Context, x Mix, c eval.Contender, load float64, seed uint64) (Queued, error) {
	// Lifetimes do not depend on the profile, so what arrives is also what runs.
	env, err := m.env(x, m.steady(x, load, warmUp+measure, seed), sim.Given{WarmUp: warmUp, End: warmUp + measure, Leave: true})
	if err != nil {
		return Queued{}, err
	}
	o, err := c.Episode(ctx, env, seed)
	if err != nil {
		return Queued{}, err
	}
	return Queued{load, *o.Partitions}, nil
}
