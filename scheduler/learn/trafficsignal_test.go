package learn

import (
	"testing"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// talkers holds a good, a middling and a bad policy for traffic.
var talkers = [3]string{"affinity:rack", "affinity:node", "kube-scheduler"}

// Rollouts tell policies apart that send far from those that do not, on clusters that a bad policy has filled.
func TestTrafficReturnsTellPoliciesApart(t *testing.T) {
	j, err := ReadJob("traffic.yaml", []byte("variant: acgnn\nrollouts: {horizon: 150}\nenvironment: {scenario: traffic}\n"), "acgnn")
	fatal.If(t, err)
	env, err := sim.New(j.Environment)
	fatal.If(t, err)
	var rolled signal
	for seed := range uint64(3) {
		fatal.If(t, env.Reset(seed))
		begin(t, env, talkers[2], len(env.Plan())/3)
		for i, name := range talkers {
			p := named(t, name, policy.Setting{Seed: seed})
			rolled.cost[i] += costOverTime(t, env, p)
			rolled.returns[i] += rolledOut(t, j, env, p, &rolled)
		}
	}
	if !rolled.tells() {
		t.Errorf("%+v", rolled)
	}
}
