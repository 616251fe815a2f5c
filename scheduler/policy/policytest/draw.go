package policytest

import (
	"pgregory.net/rapid"

	"gnnsched/scheduler/policy/stock"
)

// DrawProfile draws a valid profile.
func DrawProfile(t *rapid.T) stock.Profile {
	weight := func(name string) int64 {
		return rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 100)).Draw(t, name)
	}
	p := stock.Profile{
		Weights: stock.Weights{
			Fit: weight("fit"), Balanced: weight("balanced"), Spread: weight("spread"), Taints: weight("taints"),
			NodeAffinity: weight("node affinity"), PodAffinity: weight("pod affinity"), ImageLocality: weight("image locality"),
		},
		Strategy:        rapid.SampledFrom(stock.Strategies).Draw(t, "strategy"),
		NoDefaultSpread: rapid.Bool().Draw(t, "no default spread"),
	}
	for _, r := range drawProfileResources(t, "fit resources") {
		p.Fit = append(p.Fit, stock.Weighted{Resource: r, Weight: rapid.Int64Range(1, 100).Draw(t, "resource weight")})
	}
	p.Balanced = drawProfileResources(t, "balanced resources")
	if p.Strategy == stock.RequestedToCapacityRatio {
		at := rapid.Int64Range(0, 40).Draw(t, "first")
		for at <= 100 {
			p.Shape = append(p.Shape, stock.Point{Utilization: at, Score: rapid.Int64Range(0, stock.MaxShapeScore).Draw(t, "score")})
			at += rapid.Int64Range(1, 50).Draw(t, "step")
		}
	}
	return p
}

// drawProfileResources draws one or more resources in any order.
func drawProfileResources(t *rapid.T, name string) []stock.Resource {
	all := rapid.Permutation(stock.Resources).Draw(t, name)
	return all[:rapid.IntRange(1, len(all)).Draw(t, "of them")]
}
