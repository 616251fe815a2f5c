package linear

import (
	"fmt"
	"math"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy/spread"
)

// Features are what Linear weighs, by name and in order, each of one candidate and of
// order one whatever the cluster's size. With a fraction being requested / allocatable and a
// share being the pod's request / allocatable:
var Features = []string{
	"balance", // how much the placement lowers objective balance, times nodes (see GreedyBalance)
	"used",    // mean of the CPU and memory fractions after placement
	"skew",    // how much it lowers the standard deviation of CPU fraction - memory fraction, times nodes
	"share",   // the larger of the pod's CPU and memory shares
	"over",    // how much it lowers the part of the variances that lies over the means, over the deviations, times nodes
	"match",   // log2 of the pod's size over the mean pod's, times log2 of the node's size over the mean node's
	"room",    // how many pods as large as the largest seen fit less by the placement
	"empty",   // 1 where the node runs nothing yet
	"size",    // log2 of the node's size over the mean node's
	"zones",   // how much the placement lowers objective zones, times nodes
}

// Linear scores a candidate by a weighted sum of a handful of hand-made features. Its weights
// are tuned by the cross-entropy method (package tune); it is the floor that a network must
// clear to be worth having.
type Policy struct {
	name    string
	weights []float64
	Tuning  *Tuning // how the weights came about; nil where nobody knows
}

// New returns the policy with one weight for each of Features.
func New(name string, weights []float64) (*Policy, error) {
	if len(weights) != len(Features) {
		return nil, fmt.Errorf("linear policy %s: %d weights for %d features", name, len(weights), len(Features))
	}
	for i, w := range weights {
		if math.IsNaN(w) || math.IsInf(w, 0) {
			return nil, fmt.Errorf("linear policy %s: the weight of %s is %v", name, Features[i], w)
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
	if l.weights[len(l.weights)-1] != 0 { // the one feature that takes time by the nodes' zones
		f.zones = newZoneView(s, pod.Requests)
	}
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

// view is what the features of every candidate share.
type view struct {
	cpu, mem, skew spread.Sums // of the available nodes' fractions, and of the first less the second
	nodes          float64     // available ones
	request        cluster.Resources
	largest        cluster.Resources // in each resource, of the pending pod and the running ones
	podSize        float64           // log2 over the mean pod's
	mean           cluster.Resources // that a node offers
	zones          *zoneView         // nil where nobody asks
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

// features writes the features of a candidate to x.
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
	x[9] = f.zones.of(n.Zone)
}

// over is by how much less x lies over the mean, squared, when it has grown by d; over the
// standard deviation.
func over(s spread.Sums, x, d float64) float64 {
	mean := s.Mean()
	before, after := max(x-mean, 0), max(x+d-mean, 0)
	return (before*before - after*after) / (s.Std() + 0.01)
}

// size is the mean over CPU and memory of a over b.
func size(a, b cluster.Resources) float64 {
	return (cluster.Fraction(a.MilliCPU, b.MilliCPU) + cluster.Fraction(a.Memory, b.Memory)) / 2
}

// log2 of a/b within ±4.
func log2(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	return max(min(math.Log2(a/b), 4), -4)
}
