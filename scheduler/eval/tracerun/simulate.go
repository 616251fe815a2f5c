package tracerun

import (
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/agreement"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// simulate plays a contender's episode of a seed in the simulator: the same machines in the
// same order, and the same arrivals. nodes are where they go, by their place among the
// arrivals; those without a node are not in it.
func (r *comparison) simulate(x agreement.Contender, seed uint64) (o *sim.GPUOutcome, nodes map[int][]string, err error) {
	pack, err := objective.Parse("pack") // there has to be one; nobody looks at it
	if err != nil {
		return nil, nil, err
	}
	env, err := sim.New(sim.Config{Objective: pack, OpenB: &sim.OpenB{Nodes: r.nodes, Pods: r.pods, Factor: r.Factor, InOrder: true}})
	if err != nil {
		return nil, nil, err
	}
	all, nodes, err := eval.Placements(env, seed, eval.Deciding(x.New(policy.Setting{Seed: seed, Typical: env.Typical()}), x.Ties(seed)))
	return all.GPU, nodes, err
}
