package tracerun

import (
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/agreement"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/driver"
)

// simulate plays a contender's episode of a seed in the simulator, with the machines in the same
// order and the same arrivals as on the cluster. at are the places of the arrivals by their numbers;
// arrivals without a node are not in it.
func (r *comparison) simulate(x agreement.Contender, seed uint64) (o *sim.GPUOutcome, at map[int]place, err error) {
	all, at, err := r.episode(x, seed, &sim.OpenB{Nodes: r.nodes, Pods: r.pods, Factor: r.Factor, InOrder: true})
	return all.GPU, at, err
}

// episode plays a contender's episode of a seed in the simulator. at holds the places of the pods that got one.
func (r *comparison) episode(x agreement.Contender, seed uint64, of *sim.OpenB) (o sim.Outcome, at map[int]place, err error) {
	env, err := sim.New(sim.Config{OpenB: of})
	if err != nil {
		return o, nil, err
	}
	at = map[int]place{}
	p := x.New(policy.Setting{Seed: seed, Typical: env.Typical(), Running: env.TypicalRunning()})
	if r.GPUs != driver.Annotated && x.Profile.Variant == server.DefaultProfile { // no policy chooses devices
		p = policy.FirstFit(p)
	}
	decide := eval.Deciding(p, x.Ties(seed))
	o, err = eval.Episode(env, seed, func(env *sim.Env) (eval.Choice, error) {
		c, err := decide(env)
		if err == nil {
			at[env.Next()] = place{testbed.NodeName(env.Snapshot().Nodes[env.Candidates()[c.Candidate]].Name), c.Devices}
		}
		return c, err
	})
	return o, at, err
}
