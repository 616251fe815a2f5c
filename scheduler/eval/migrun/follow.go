package migrun

import (
	"context"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
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
func (m Machines) Follow(ctx context.Context, e Episode, make func(policy.Setting) policy.Policy,
	look func(arrival int, nodes []*cluster.Node)) (out []Fate, err error) {
	all := m.arriving(e.Mix, e.Load, e.Seed)
	env, err := sim.New(m.Filling(e.Mix, []float64{e.Load}).Config)
	if err != nil {
		return nil, err
	}
	decide, next := eval.Deciding(make(policy.Setting{Seed: e.Seed, Typical: env.Typical()}), nil), 0
	arrive := func(upTo int) { // those that fit nowhere arrive without a decision
		for ; next < upTo; next++ {
			look(next, env.Nodes())
		}
	}
	_, err = eval.Episode(env, e.Seed, func(env *sim.Env) (eval.Choice, error) {
		if err := ctx.Err(); err != nil {
			return eval.Choice{}, err
		}
		arrive(env.Next() + 1)
		return decide(env)
	})
	if err != nil {
		return nil, err
	}
	arrive(len(all))
	asked := 0
	for i, a := range all {
		asked += a.profile.Compute()
		out = append(out, Fate{m.pod(a), float64(a.profile.Compute()) / mig.Compute, float64(asked) / float64(m.compute()), int(env.Row(i))})
	}
	return out, nil
}
