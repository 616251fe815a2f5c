package objective

import "gnnsched/internal/cluster"

// GPUIdle measures the unused part of the GPUs: the idle thousandths of devices, over all of them. Nodes with taints count, since many
// clusters taint their nodes with GPUs; unschedulable ones do not. The cost is 0 without GPUs.
type GPUIdle struct{}

// Name implements Term.
func (GPUIdle) Name() string { return "gpu-idle" }

// About implements Described.
func (GPUIdle) About() string {
	return "share of the GPUs that no pod uses"
}

// Cost implements Term.
func (t GPUIdle) Cost(nodes []*cluster.Node) float64 { return t.Track(nodes).Cost() }

// Track implements Trackable.
func (GPUIdle) Track(nodes []*cluster.Node) Tracker {
	t := &gpuIdleTracker{nodes: nodes, counted: make([]int64, len(nodes))}
	for i, n := range nodes {
		if !n.Unschedulable {
			t.all += n.Allocatable.TotalGPUMilli()
			t.Update(i)
		}
	}
	return t
}

// gpuIdleTracker keeps the sum of the allocated amounts. It is an integer, so no rounding error accumulates.
type gpuIdleTracker struct {
	nodes     []*cluster.Node
	counted   []int64 // by node: the thousandths in use that are in the sum
	used, all int64
}

func (t *gpuIdleTracker) Update(i int) {
	if n := t.nodes[i]; n.Allocatable.GPU > 0 && !n.Unschedulable {
		used := n.Requested.TotalGPUMilli()
		t.used += used - t.counted[i]
		t.counted[i] = used
	}
}

func (t *gpuIdleTracker) Cost() float64 {
	if t.all == 0 {
		return 0
	}
	return 1 - cluster.Fraction(t.used, t.all)
}
