package checkpoint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gnnsched/gnn/feature"
)

// ruleWeights names the weights of the rule that a residual is.
const ruleWeights = "score.features.weight"

// inRule reports whether a parameter is part of the rule, or of how it changes with the state.
func inRule(name string) bool { return name == ruleWeights || strings.HasPrefix(name, "emphasis.") }

// FollowRule makes a network with a residual score as a rule does: the sum of the features of feature.RuleFeatures with the given
// weights, by their names. What the network adds to it is 0 until it learns. It is an error if the network has no
// residual, or does not read a feature that has a weight.
func (c *Checkpoint) FollowRule(weights map[string]float64) error {
	if !c.Manifest.Architecture.Residual {
		return fmt.Errorf("the network has no residual")
	}
	features := c.Manifest.Architecture.Inputs()[Candidate]
	for name, w := range c.Weights {
		if name == "score.weight" || strings.HasPrefix(name, "trust.") || inRule(name) {
			clear(w.Data)
		}
	}
	sum := c.Weights[ruleWeights].Data
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		if weights[name] == 0 {
			continue
		}
		at := slices.IndexFunc(features, func(f feature.Feature) bool { return f.Name == "rule_"+name })
		if at < 0 {
			return fmt.Errorf("the network reads no feature %q; a rule may weigh %s, if the network reads the set rule", name,
				strings.Join(feature.RuleFeatures, ", "))
		}
		sum[at] = float32(weights[name])
	}
	return nil
}

// FollowRuleOf makes a network with a residual score as the rule of another network does, with what changes that rule with the state. It
// is an error if one of them has no residual, or they read different features.
func (c *Checkpoint) FollowRuleOf(other *Checkpoint) error {
	if !other.Manifest.Architecture.Residual || !slices.Equal(c.Manifest.Architecture.Features, other.Manifest.Architecture.Features) {
		return fmt.Errorf("a network with the features %v cannot follow the rule of %v with the features %v",
			c.Manifest.Architecture.Features, other.Manifest.Architecture, other.Manifest.Architecture.Features)
	}
	if err := c.FollowRule(nil); err != nil {
		return err
	}
	for name, w := range c.Weights {
		if inRule(name) {
			copy(w.Data, other.Weights[name].Data)
		}
	}
	return nil
}
