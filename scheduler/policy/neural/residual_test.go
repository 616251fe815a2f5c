package neural_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
)

// An untrained network with a residual is the linear policy, on clusters of every size.
func TestUntrainedResidualIsTheRule(t *testing.T) {
	rule := linear.Tuned("linear")
	for _, encoder := range []checkpoint.Encoder{checkpoint.MLP, checkpoint.GNN} {
		a := checkpoint.Architecture{Encoder: encoder, Head: checkpoint.DQN, Hidden: 16, Features: []string{"base", "whole", "rule"}, Residual: true}
		c := checkpoint.Random(a, rand.New(rand.NewPCG(1, 2)))
		if err := c.FollowRule(rule.ByName()); err != nil {
			t.Fatal(err)
		}
		net, err := infer.New(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, scenario := range []string{"small8", "lossy", "jobs", "large500"} {
			s, err := eval.Find(scenario)
			if err != nil {
				t.Fatal(err)
			}
			env, err := sim.New(s.Config)
			if err != nil {
				t.Fatal(err)
			}
			if err := env.Reset(1); err != nil {
				t.Fatal(err)
			}
			p := neural.New("residual", net)
			for step := 0; !env.Done() && step < 1500; step++ {
				rows := env.Candidates()
				if step%50 > 0 {
					env.Step(int(rand.New(rand.NewPCG(uint64(step), 3)).IntN(len(rows))))
					continue
				}
				want, got := make([]float32, len(rows)), make([]float32, len(rows))
				if err := rule.Score(env.Snapshot(), env.Pending(), rows, want); err != nil {
					t.Fatal(err)
				}
				if err := p.Score(env.Snapshot(), env.Pending(), rows, got); err != nil {
					t.Fatal(err)
				}
				for i := range want {
					if math.Abs(float64(want[i]-got[i])) > 2e-6*(1+math.Abs(float64(want[i]))) {
						t.Fatalf("%s, step %d: candidate %d has score %v, by the rule %v", scenario, step, i, got[i], want[i])
					}
				}
				env.Step(policy.Best(want))
			}
		}
	}
}
