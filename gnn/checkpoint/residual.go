package checkpoint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/layer"
)

// FollowRule makes a network with a residual score as a rule does: the sum of the features of feature.RuleFeatures with the given
// weights, by their names. What the network adds to it is 0 until it learns. It is an error if the network has no
// residual, or does not read a feature that has a weight.
func (c *Checkpoint) FollowRule(weights map[string]float64) error {
	if !c.Manifest.Architecture.Residual {
		return fmt.Errorf("the network has no residual")
	}
	features := c.Manifest.Architecture.features()[layer.Candidate]
	sum := c.Weights["score.features.weight"].Data
	clear(sum)
	for name, w := range c.Weights {
		if name == "score.weight" || strings.HasPrefix(name, "trust.") || strings.HasPrefix(name, "emphasis.") {
			clear(w.Data)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		if weights[name] == 0 {
			continue
		}
		at := slices.IndexFunc(features, func(f feature.Feature) bool { return f.Name == "rule_"+name })
		if at < 0 {
			return fmt.Errorf("the network reads no feature %q; a rule may weigh %s, if the network reads the set rule", name, strings.Join(feature.RuleFeatures, ", "))
		}
		sum[at] = float32(weights[name])
	}
	return nil
}
