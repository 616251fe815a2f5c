package learn

import (
	"testing"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// talkers holds a good, a middling and a bad policy for traffic.
var talkers = [3]string{"affinity:rack", "affinity:node", "kube-scheduler"}

// Rollouts tell policies apart that send far from those that do not, on clusters that a bad policy has filled. So do the
// rewards by the level of the cost, over a week as long as the fill.
func TestTrafficReturnsTellPoliciesApart(t *testing.T) {
	j, err := ReadJob("traffic.yaml", []byte("variant: acgnn\nmethod: rollouts\nenvironment: {scenario: traffic}\n"), "acgnn")
	fatal.If(t, err)
	env, err := sim.New(j.Environment)
	fatal.If(t, err)
	var rolled, levels signal
	j.Reward.Kind, j.Gamma = run.LevelReward, 0.99
	for seed := range uint64(3) {
		fatal.If(t, env.Reset(seed))
		begin(t, env, talkers[2], len(env.Plan())/3)
		for i, name := range talkers {
			p := named(t, name, policy.Setting{Seed: seed})
			cost := costOverTime(t, env, p)
			rolled.cost[i], levels.cost[i] = rolled.cost[i]+cost, levels.cost[i]+cost
			rolled.returns[i] += rolledOut(t, j, env, p, &rolled)
			levels.returns[i] += discounted(t, j, env, p, &levels)
		}
	}
	if !rolled.tells() {
		t.Errorf("rollouts: %+v", rolled)
	}
	if !levels.tells() {
		t.Errorf("level: %+v", levels)
	}
}
