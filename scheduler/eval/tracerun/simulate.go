package tracerun

import (
	"fmt"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/agreement"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/driver"
)

// simulate plays a contender's episode of a seed in the simulator, with the machines in the same order as on the cluster. at holds the
// places of the pods by their numbers; pods that never got a node are not in it.
func (r *comparison) simulate(x agreement.Contender, seed uint64, of sim.OpenB) (o sim.Outcome, at map[int]place, err error) {
	of.Nodes, of.Pods, of.InOrder = r.nodes, r.pods, true
	env, err := sim.New(sim.Config{OpenB: &of})
	if err != nil {
		return o, nil, fmt.Errorf("in the simulator: %w", err)
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
	if err != nil {
		err = fmt.Errorf("in the simulator: %w", err)
	}
	return o, at, err
}
