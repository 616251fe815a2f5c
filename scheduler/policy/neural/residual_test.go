package neural_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
)

// An untrained network with a residual is the linear policy, on clusters of every size.
func TestUntrainedResidualIsTheRule(t *testing.T) {
	for _, encoder := range []checkpoint.Encoder{checkpoint.MLP, checkpoint.GNN} {
		a := checkpoint.Architecture{Encoder: encoder, Head: checkpoint.DQN, Hidden: 16, Features: []string{"base", "whole", "rule"},
			Residual: true}
		c := checkpoint.Random(a, rand.New(rand.NewPCG(1, 2)))
		fatal.If(t, c.FollowRule(linear.Tuned("linear").ByName()))
		for _, scenario := range []string{"small8", "lossy", "jobs", "large500"} {
			if part := followed(t, c, scenario); part != 1 {
				t.Errorf("%s: the scores are the rule's in %v of the decisions", scenario, part)
			}
		}
	}
}

// The shipped rule is the linear policy with other weights where it learned, and not on clusters that are larger.
func TestShippedRuleIsLinearOnLargeClusters(t *testing.T) {
	c := fatal.Value(checkpoint.Shipped("rule"))(t)
	for scenario, want := range map[string]float64{"large500": 1, "jobs": 0} {
		if part := followed(t, c, scenario); part != want {
			t.Errorf("on %s the scores are linear's in %v of the decisions, want %v", scenario, part, want)
		}
	}
}

// followed returns the part of decisions in which a network's scores are those of the linear policy, on a scenario.
func followed(t *testing.T, c *checkpoint.Checkpoint, scenario string) float64 {
	t.Helper()
	rule := linear.Tuned("linear")
	net := fatal.Value(infer.New(c))(t)
	s := fatal.Value(eval.Find(scenario))(t)
	env := fatal.Value(sim.New(s.Config))(t)
	fatal.If(t, env.Reset(1))
	p := neural.New("residual", net, nil)
	same, all := 0., 0.
	for step := 0; !env.Done() && step < 1500; step++ {
		rows := env.Candidates()
		if step%50 > 0 || len(rows) < 2 {
			env.Step(int(rand.New(rand.NewPCG(uint64(step), 3)).IntN(len(rows))))
			continue
		}
		want, got := make([]float32, len(rows)), make([]float32, len(rows))
		fatal.If(t, rule.Score(env.Snapshot(), env.Pending(), rows, want))
		fatal.If(t, p.Score(env.Snapshot(), env.Pending(), rows, got))
		all++
		differs := false
		for i := range want {
			differs = differs || math.Abs(float64(want[i]-got[i])) > 2e-6*(1+math.Abs(float64(want[i])))
		}
		if !differs {
			same++
		}
		if alone := net.ByRuleAlone(p.Reading(env.Snapshot(), env.Pending(), rows, 0).Features); alone == differs {
			t.Errorf("%s, step %d: the network says %v of whether it follows the rule", scenario, step, alone)
		}
		env.Step(policy.Best(want))
	}
	return same / all
}
