package linear

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"gnnsched/internal/cluster"
	"gnnsched/internal/spread"
	"gnnsched/scheduler/policy"
)

// Features names the features of a candidate node, in the order of the weights. Each is of order one
// whatever the cluster's size. A fraction is requested / allocatable of a node; a share is the
// pod's request / allocatable of a node. All means and deviations are over the available nodes.
var Features = slices.Concat([]string{
	"balance", // decrease of the sum of the CPU and memory fractions' standard deviations by the placement, times nodes
	"used",    // mean of the CPU and memory fractions after placement
	"skew",    // decrease of the standard deviation of CPU fraction - memory fraction by the placement, times nodes
	"share",   // the larger of the pod's CPU and memory shares
	"over",    // decrease of the node's squared excess over the mean fraction, divided by the deviation; CPU plus memory
	"match",   // log2(pod's size / mean pod's size) · log2(node's size / mean node's size)
	"room",    // decrease of the number of pods as large as the largest pod seen that fit on the node
	"empty",   // 1 if the node runs no pod, else 0
	"size",    // log2(node's size / mean node's size)
	"zones",   // decrease of objective.Zones by the placement, times nodes
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
var UsageFeatures = []string{
	"usage-balance",   // decrease of the sum over the dimensions of the fractions' standard deviations by what the pod is expected to use, times nodes
	"usage-full",      // largest fraction of CPU, network and disk after placement
	"usage-peak",      // the same for the maxima of the last hour
	"usage-deviation", // sum of the standard deviations over five minutes of CPU, network and disk, as fractions
}

// positive names the features that are 0 or more, with the most that they can be on a node that the pod fits on.
var positive = map[string]float64{"used": 1, "share": 1, "empty": 1, "usage-full": math.Inf(1), "usage-peak": math.Inf(1), "usage-deviation": math.Inf(1)}

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

// Name implements policy.Policy.
func (l *Policy) Name() string { return l.name }

// Score implements policy.Policy.
func (l *Policy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	f := newView(s, pod)
	if l.weights[zonesFeature] != 0 {
		f.zones = newZoneView(s, pod.Requests)
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
	cpu, mem, skew spread.Sums // of the available nodes' CPU fractions, memory fractions, and their differences
	nodes          float64     // number of available nodes
	request        cluster.Resources
	largest        cluster.Resources // maximum of each resource over the pending and the running pods
	podSize        float64           // log2(pending pod's size / mean running pod's size)
	mean           cluster.Resources // mean resources that a node offers
	zones          *zoneView         // nil if the feature zones has no weight
	usage          *usageView        // nil if no feature of usage has a weight
	energy         *energyView       // nil if the feature energy has no weight
}

func newView(s *cluster.Snapshot, pod *cluster.Pod) view {
	f := view{request: pod.Requests, largest: pod.Requests}
	var offered, used cluster.Resources
	for _, n := range s.Nodes {
		if !n.Available() {
			continue
		}
		f.nodes++
		f.cpu.Add(cluster.Fraction(n.Requested.MilliCPU, n.Allocatable.MilliCPU))
		f.mem.Add(cluster.Fraction(n.Requested.Memory, n.Allocatable.Memory))
		f.skew.Add(cluster.Fraction(n.Requested.MilliCPU, n.Allocatable.MilliCPU) - cluster.Fraction(n.Requested.Memory, n.Allocatable.Memory))
		offered, used = offered.Plus(n.Allocatable), used.Plus(n.Requested)
		for _, g := range n.Groups {
			f.largest.MilliCPU = max(f.largest.MilliCPU, g.Each.MilliCPU)
			f.largest.Memory = max(f.largest.Memory, g.Each.Memory)
		}
	}
	count := int64(max(f.nodes, 1))
	f.mean = cluster.Resources{MilliCPU: offered.MilliCPU / count, Memory: offered.Memory / count}
	if used.Pods > 0 {
		each := cluster.Resources{MilliCPU: used.MilliCPU / used.Pods, Memory: used.Memory / used.Pods}
		f.podSize = log2(size(pod.Requests, f.mean), size(each, f.mean))
	}
	return f
}

// features writes the features of a candidate to x, in the order of Features.
func (f *view) features(n *cluster.Node, x []float64) {
	cpu, mem := cluster.Fraction(n.Requested.MilliCPU, n.Allocatable.MilliCPU), cluster.Fraction(n.Requested.Memory, n.Allocatable.Memory)
	dc, dm := cluster.Fraction(f.request.MilliCPU, n.Allocatable.MilliCPU), cluster.Fraction(f.request.Memory, n.Allocatable.Memory)
	c, m := f.cpu.Moved(cpu, dc), f.mem.Moved(mem, dm)
	x[0] = f.nodes * (f.cpu.Std() + f.mem.Std() - c.Std() - m.Std())
	x[1] = (cpu + dc + mem + dm) / 2
	x[2] = f.nodes * (f.skew.Std() - f.skew.Moved(cpu-mem, dc-dm).Std())
	x[3] = max(dc, dm)
	x[4] = over(f.cpu, cpu, dc) + over(f.mem, mem, dm)
	x[8] = log2(size(n.Allocatable, f.mean), 1)
	x[5] = f.podSize * x[8]
	free := n.Free()
	x[6] = float64(f.largest.FitsInto(free) - f.largest.FitsInto(free.Minus(f.request)))
	x[7] = 0
	if n.Requested.Pods == 0 {
		x[7] = 1
	}
	x[zonesFeature] = f.zones.gainOf(n.Zone)
	f.usage.features(n, x[firstUsageFeature:energyFeature])
	x[energyFeature] = f.energy.gainOf(n)
}

// over returns the decrease of the squared excess of x over the mean when x grows by d, divided by
// the standard deviation.
func over(s spread.Sums, x, d float64) float64 {
	mean := s.Mean()
	before, after := max(x-mean, 0), max(x+d-mean, 0)
	return (before*before - after*after) / (s.Std() + 0.01)
}

// size returns the mean of a / b over CPU and memory.
func size(a, b cluster.Resources) float64 {
	return (cluster.Fraction(a.MilliCPU, b.MilliCPU) + cluster.Fraction(a.Memory, b.Memory)) / 2
}

// log2 returns log2(a / b), limited to ±4; 0 unless both are positive.
func log2(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	return max(min(math.Log2(a/b), 4), -4)
}
