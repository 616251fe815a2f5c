package migrun

import (
	"context"

	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
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

// Unscheduled returns the number of pods without a node.
func (f Filled) Unscheduled() (n int) {
	for _, l := range f.Left {
		n += l
	}
	return n
}

// Fill plays the arrivals of a seed with a policy, up to the last of the ascending loads.
func (m Machines) Fill(ctx context.Context, x Mix, c eval.Contender, loads []float64, seed uint64) ([]Filled, error) {
	s := newState(m, c.New(policy.Setting{Seed: seed, Typical: m.typical(x)}), c.Ties(seed))
	var out []Filled
	var now Filled
	err := m.each(x, loads, seed, func(a arrival) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, ok, err := s.place(a)
		if now.Arrived[a.profile]++; !ok {
			now.Left[a.profile]++
		}
		return err
	}, func(load float64) {
		now.Load, now.Allocation = load, s.allocation()
		out = append(out, now)
	})
	return out, err
}

// each calls arrive for each arrival, and at once the arrivals have requested a load.
func (m Machines) each(x Mix, loads []float64, seed uint64, arrive func(arrival) error, at func(load float64)) error {
	asked := 0
	for _, a := range m.filling(x, loads[len(loads)-1], seed) {
		if err := arrive(a); err != nil {
			return err
		}
		asked += a.profile.Compute()
		for len(loads) > 0 && float64(asked) >= loads[0]*float64(m.compute()) {
			at(loads[0])
			loads = loads[1:]
		}
	}
	return nil
}
