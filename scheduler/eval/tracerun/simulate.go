package tracerun

import (
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/agreement"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// simulate plays a contender's episode of a seed in the simulator, with the machines in the same
// order and the same arrivals as on the cluster. nodes are the nodes of each arrival by its number;
// arrivals without a node are not in it.
func (r *comparison) simulate(x agreement.Contender, seed uint64) (o *sim.GPUOutcome, nodes map[int][]string, err error) {
	pack, err := objective.Parse("pack") // the simulator needs an objective; nobody reads its cost
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
