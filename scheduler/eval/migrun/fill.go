package migrun

import (
	"context"

	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

// Loads are the amounts of arrivals at which Fill looks at the cluster, over its compute slices.
var Loads = []float64{0.6, 0.7, 0.8, 0.9, 0.95, 1, 1.1, 1.3}

// Filled is the state when the arrivals have requested a multiple of the compute slices.
type Filled struct {
	Load       float64        `json:"load"`
	Allocation float64        `json:"allocation"` // of the compute slices, 0 to 1
	Arrived    [mig.Count]int `json:"arrived"`    // by profile
	Left       [mig.Count]int `json:"left"`       // pods without a node, by profile
}

// Fill plays the arrivals of a seed with a policy, up to the last of the ascending loads.
func (m Machines) Fill(ctx context.Context, x Mix, c eval.Contender, loads []float64, seed uint64) ([]Filled, error) {
	all := m.filling(x, loads[len(loads)-1], seed)
	env, err := m.env(x, all, sim.Given{})
	if err != nil {
		return nil, err
	}
	if _, err = c.Episode(ctx, env, seed); err != nil {
		return nil, err
	}
	var out []Filled
	var now Filled
	used := 0
	m.each(all, loads, func(i int, a arrival) {
		now.Arrived[a.profile]++
		if env.Runs(i) { // no pod leaves, so it has run since it arrived
			used += a.profile.Compute()
		} else {
			now.Left[a.profile]++
		}
	}, func(load float64) {
		now.Load, now.Allocation = load, float64(used)/float64(m.compute())
		out = append(out, now)
	})
	return out, nil
}

// each calls arrive for each arrival, and at once the arrivals have requested a load.
func (m Machines) each(all []arrival, loads []float64, arrive func(i int, a arrival), at func(load float64)) {
	asked := 0
	for i, a := range all {
		arrive(i, a)
		asked += a.profile.Compute()
		for len(loads) > 0 && float64(asked) >= loads[0]*float64(m.compute()) {
			at(loads[0])
			loads = loads[1:]
		}
	}
}
