package migrun

import (
	"context"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/policy"
)

// Fate is what became of an arrival.
type Fate struct {
	Pod  cluster.Pod
	GPUs float64 // compute slices of the partition, in GPUs
	Load float64 // compute slices that have been requested with it, over those of the cluster
	Node int     // where the pod got its partition; -1: nowhere
}

// Episode is the arrivals of a seed until they have requested a load.
type Episode struct {
	Mix  Mix
	Load float64 // over the compute slices
	Seed uint64
}

// Follow plays an episode with a policy as Fill does, and returns what became of each arrival. Before each it calls look with the arrival's
// index and the nodes, which Follow changes afterwards.
func (m Machines) Follow(ctx context.Context, e Episode, make func(policy.Setting) policy.Policy, look func(arrival int, nodes []*cluster.Node)) (out []Fate, err error) {
	s := newState(m, make(policy.Setting{Seed: e.Seed, Typical: m.typical(e.Mix)}), nil)
	asked := 0
	for i, a := range m.filling(e.Mix, e.Load, e.Seed) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		look(i, s.nodes)
		at, ok, err := s.place(a)
		if err != nil {
			return nil, err
		}
		if !ok {
			at.node = -1
		}
		asked += a.profile.Compute()
		out = append(out, Fate{Pod: m.pod(a), GPUs: float64(a.profile.Compute()) / mig.Compute, Load: float64(asked) / float64(m.compute()), Node: at.node})
	}
	return out, nil
}
