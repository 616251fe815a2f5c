package linear

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"gnnsched/gnn/feature"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
)

// Features names the features of a candidate node, in the order of the weights: those of feature.Rule first.
var Features = slices.Concat(feature.RuleFeatures, []string{
	"zones", // decrease of objective.Zones by the placement, times nodes
}, UsageFeatures, []string{Energy})

// Energy names the feature that is the decrease of objective energy by the placement, times nodes, but for GPUs.
const Energy = "energy"

// The places of features that take time to compute, and are computed only if they have a weight.
const (
	zonesFeature      = 9
	firstUsageFeature = 10
	energyFeature     = 14
)

// UsageFeatures names those of Features that are about measured usage, or about requests where nothing was measured.
// A fraction is used / capacity of a node.
var UsageFeatures = []string{"usage-balance", "usage-full", "usage-peak", "usage-deviation"}

// Docs describes Features.
var Docs = slices.Concat(feature.RuleDocs, []string{
	"decrease of the objective zones by the placement, times nodes",
	"decrease of the sum over the dimensions of the fractions' standard deviations by what the pod is expected to use, times nodes",
	"largest fraction of CPU, network and disk after placement",
	"the same for the maxima of the last hour",
	"sum of the standard deviations over five minutes of CPU, network and disk, as fractions",
	"decrease of the objective energy by the placement, times nodes, without GPUs",
})

// positive names the features that are 0 or more, with the most that they can be on a node that the pod fits on.
var positive = map[string]float64{"used": 1, "share": 1, "empty": 1, "usage-full": math.Inf(1), "usage-peak": math.Inf(1),
	"usage-deviation": math.Inf(1)}

// Reached returns the value nearest to the one that a feature needs, on the way from one that it has, and whether it can have it and
// it is enough. A feature that is 0 or 1 has nothing between.
func Reached(feature int, from, needed float64) (to float64, can bool) {
	name := Features[feature]
	if name == "empty" {
		to = 1 - from
		return to, (needed > from) == (to > from) && math.Abs(needed-from) <= 1
	}
	most, bounded := positive[name]
	return needed, !bounded || needed >= 0 && needed <= most
}

// Policy scores a candidate by the weighted sum of Features. The cross-entropy method tunes its
// weights. It is the baseline that a network must beat to be worth its cost.
type Policy struct {
	name    string
	weights []float64
	Tuning  *Tuning              // how the weights were tuned; nil if unknown
	last    atomic.Pointer[view] // of the last Score; atomic because episodes that run in parallel share tuned weights
}

// mostWeight bounds the weights, so that no score overflows. Only their ratios matter.
const mostWeight = 1e12

// New returns a policy with the given weights, in the order of Features. It fails if their number is
// wrong, or one is not finite or beyond mostWeight.
func New(name string, weights []float64) (*Policy, error) {
	if len(weights) != len(Features) {
		return nil, fmt.Errorf("linear policy %s: got %d weights, want one for each of %d features", name, len(weights), len(Features))
	}
	for i, w := range weights {
		if !(math.Abs(w) <= mostWeight) {
			return nil, fmt.Errorf("linear policy %s: the weight of %s is %v; give numbers from %v to %v",
				name, Features[i], w, -mostWeight, mostWeight)
		}
	}
	return &Policy{name: name, weights: weights}, nil
}

// Weights returns a copy of the weights, in the order of Features.
func (l *Policy) Weights() []float64 { return slices.Clone(l.weights) }

// ByName returns the weights by the names of their features.
func (l *Policy) ByName() map[string]float64 {
	out := map[string]float64{}
	for i, w := range l.weights {
		out[Features[i]] = w
	}
	return out
}

// Name implements policy.Policy.
func (l *Policy) Name() string { return l.name }

// Score implements policy.Policy.
func (l *Policy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	f := view{Rule: feature.NewRule(s.Nodes, pod, largest(s))}
	if l.weights[zonesFeature] != 0 {
		f.zones = newZoneView(s, pod.Requests.Counted())
	}
	if slices.ContainsFunc(l.weights[firstUsageFeature:energyFeature], func(w float64) bool { return w != 0 }) {
		f.usage = newUsageView(s, pod)
	}
	if l.weights[energyFeature] != 0 {
		f.energy = newEnergyView(s, pod)
	}
	l.last.Store(&f)
	x := make([]float64, len(Features))
	for i, v := range candidates {
		f.features(s.Nodes[v], x)
		var sum float64
		for j, w := range l.weights {
			sum += w * x[j]
		}
		scores[i] = float32(sum)
	}
	return nil
}

// Reading implements policy.Reader.
func (l *Policy) Reading(s *cluster.Snapshot, _ *cluster.Pod, candidates []int32, i int) *policy.Reading {
	last := l.last.Load()
	if last == nil {
		return nil
	}
	x := make([]float64, len(Features))
	last.features(s.Nodes[candidates[i]], x)
	r := &policy.Reading{Kind: policy.LinearReading, Features: make([]float32, len(x)), Weights: make([]float32, len(x))}
	for j := range x {
		r.Features[j], r.Weights[j] = float32(x[j]), float32(l.weights[j])
	}
	return r
}

// view holds what the features of all candidates have in common.
type view struct {
	feature.Rule
	zones  *zoneView   // nil if the feature zones has no weight
	usage  *usageView  // nil if no feature of usage has a weight
	energy *energyView // nil if the feature energy has no weight
}

// largest returns the most CPU and memory that one pod on an available node requests.
func largest(s *cluster.Snapshot) (out cluster.Resources) {
	for _, n := range s.Nodes {
		if !n.Available() {
			continue
		}
		for _, g := range n.Groups {
			out.MilliCPU, out.Memory = max(out.MilliCPU, g.Each.MilliCPU), max(out.Memory, g.Each.Memory)
		}
	}
	return out
}

// features writes the features of a candidate to x, in the order of Features.
func (f *view) features(n *cluster.Node, x []float64) {
	f.Features(n, x)
	x[zonesFeature] = f.zones.gainOf(n.Zone)
	f.usage.features(n, x[firstUsageFeature:energyFeature])
	x[energyFeature] = f.energy.gainOf(n)
}
