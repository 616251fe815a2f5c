package linear

import (
	"gnnsched/internal/cluster"
)

// usageView holds what the available nodes use, by dimension, and what the pod is expected to use.
type usageView struct {
	nodes    float64
	expected [cluster.Dimensions]float64      // in the dimension's unit
	used     [cluster.Dimensions]cluster.Sums // of the nodes' used fractions
	std      [cluster.Dimensions]float64      // their standard deviations
}

// newUsageView returns the view of the available nodes for a pod.
func newUsageView(s *cluster.Snapshot, pod *cluster.Pod) *usageView {
	v := &usageView{expected: pod.ExpectedAll()}
	for _, n := range s.Nodes {
		if !n.Available() {
			continue
		}
		v.nodes++
		for d := range v.used {
			if capacity := n.Capacity(cluster.Dimension(d)); capacity > 0 {
				v.used[d].Add(n.Used(cluster.Dimension(d)).Mean / capacity)
			}
		}
	}
	for d := range v.used {
		v.std[d] = v.used[d].Std()
	}
	return v
}

// features writes the features of a candidate that are about usage, in the order of UsageFeatures. All are 0 without
// a view.
func (v *usageView) features(n *cluster.Node, x []float64) {
	clear(x)
	if v == nil {
		return
	}
	for d := range v.used {
		capacity := n.Capacity(cluster.Dimension(d))
		if capacity <= 0 {
			continue
		}
		s, add := n.Used(cluster.Dimension(d)), v.expected[d]/capacity
		used := s.Mean / capacity
		x[0] += v.nodes * (v.std[d] - v.used[d].Moved(used, add).Std())
		if cluster.Dimension(d) == cluster.UsedMemory { // it is not shared: a pod loses nothing to others
			continue
		}
		x[1] = max(x[1], used+add)
		x[2] = max(x[2], s.HourMax/capacity+add)
		x[3] += s.Deviation / capacity
	}
}
