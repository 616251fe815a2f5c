package checkpoint

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// A network of another kind and width takes over the rule and its emphasis, and adds nothing to it.
func TestFollowRuleOf(t *testing.T) {
	features := []string{"base", "rule"}
	rng := rand.New(rand.NewPCG(1, 2))
	rule := Random(Architecture{Encoder: MLP, Head: DQN, Hidden: 4, Features: features, Residual: true}, rng)
	c := Random(Architecture{Encoder: GNN, Head: ActorCritic, Hidden: 8, Features: features, Residual: true}, rng)
	if err := c.FollowRuleOf(rule); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{ruleWeights, "emphasis.bias", "emphasis.cluster.weight", "emphasis.pod.weight"} {
		for i, v := range c.Weights[name].Data {
			if v != rule.Weights[name].Data[i] {
				t.Fatalf("%s[%d] = %v, the rule has %v", name, i, v, rule.Weights[name].Data[i])
			}
		}
	}
	for _, name := range []string{"score.weight", "trust.bias"} {
		for _, v := range c.Weights[name].Data {
			if v != 0 {
				t.Errorf("%s is %v, want 0: the network would add to the rule", name, v)
			}
		}
	}
	for name, other := range map[string]Architecture{
		"other features": {Encoder: MLP, Head: DQN, Hidden: 4, Features: []string{"base", "whole", "rule"}, Residual: true},
		"no rule":        {Encoder: MLP, Head: DQN, Hidden: 4, Features: features},
	} {
		if err := c.FollowRuleOf(Random(other, rng)); err == nil || !strings.Contains(err.Error(), "cannot follow the rule") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
