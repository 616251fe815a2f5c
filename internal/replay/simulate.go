package replay

import (
	"gnnsched/internal/live"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// simulate plays a contender's episode of a seed in the simulator: the same machines in the
// same order, and the same arrivals.
func (r *replay) simulate(x live.Contender, seed uint64) (*sim.GPUOutcome, error) {
	pack, err := objective.Parse("pack") // there has to be one; nobody looks at it
	if err != nil {
		return nil, err
	}
	env, err := sim.New(sim.Config{Objective: pack, OpenB: &sim.OpenB{Nodes: r.nodes, Pods: r.pods, Factor: r.Factor, InOrder: true}})
	if err != nil {
		return nil, err
	}
	o, err := eval.Play(env, seed, x.New(policy.Setting{Seed: seed, Typical: env.Typical()}), x.Ties(seed))
	return o.GPU, err
}
