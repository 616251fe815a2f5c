package objective

import "gnnsched/internal/cluster"

// largePod is the number of large pods that fill the largest node: a large pod requests 1/largePod of its CPU and of its memory.
const largePod = 4

// Fragmentation measures the share of the cluster that is free in pieces too small for a large pod.
// A large pod requests a quarter of the most CPU and of the most memory that any available node
// offers. The cost is
//
//	(P - F) / E
//
// where F is the number of large pods that fit on the nodes, P the number that would fit if all free resources were on one node, in
// fractions of a pod, and E is P for an empty cluster. The idea comes from Weng et al. 2023 (Beware of fragmentation, USENIX ATC), with one
// kind of pod. Unlike Pack, it distinguishes between the nodes in use that a small pod may go to.
type Fragmentation struct{}

// Name implements Term.
func (Fragmentation) Name() string { return "fragmentation" }

// About implements Described.
func (Fragmentation) About() string {
	return "share of the cluster that is free in pieces too small for a pod of a quarter of the largest node"
}

// Cost implements Term.
func (f Fragmentation) Cost(nodes []*cluster.Node) float64 { return f.Track(nodes).Cost() }

// Track implements Trackable.
func (Fragmentation) Track(nodes []*cluster.Node) Tracker { return newLargePods(nodes) }

// Room returns the number of large pods (see Fragmentation) that fit on the available nodes, as a
// fraction of the number that would fit if the nodes were empty; 0 if none would.
func Room(nodes []*cluster.Node) float64 {
	t := newLargePods(nodes)
	var empty int64
	for _, v := range nodes {
		if v.Available() {
			empty += t.fit(v.Allocatable)
		}
	}
	return cluster.Fraction(t.fits, empty)
}

// largePods is the tracker of Fragmentation.
type largePods struct {
	nodes   []*cluster.Node
	pod     cluster.Resources   // the large pod's requests
	free    cluster.Resources   // sum over the available nodes
	offered cluster.Resources   // sum over the available nodes
	fits    int64               // large pods that fit on the available nodes
	counted []cluster.Resources // by node: the free resources that are in the sums
}

func newLargePods(nodes []*cluster.Node) *largePods {
	t := &largePods{nodes: nodes, counted: make([]cluster.Resources, len(nodes))}
	for _, v := range nodes {
		if v.Available() {
			t.pod.MilliCPU = max(t.pod.MilliCPU, v.Allocatable.MilliCPU/largePod)
			t.pod.Memory = max(t.pod.Memory, v.Allocatable.Memory/largePod)
			t.offered = t.offered.Plus(v.Allocatable)
		}
	}
	for i := range nodes {
		t.Update(i)
	}
	return t
}

// fit returns the number of large pods that fit into free.
func (t *largePods) fit(free cluster.Resources) int64 {
	n := free.Pods
	if t.pod.MilliCPU > 0 {
		n = min(n, free.MilliCPU/t.pod.MilliCPU)
	}
	if t.pod.Memory > 0 {
		n = min(n, free.Memory/t.pod.Memory)
	}
	return max(n, 0)
}

// pooled returns the number of large pods that fit into free, in fractions of a pod.
func (t *largePods) pooled(free cluster.Resources) float64 {
	n := float64(free.Pods)
	if t.pod.MilliCPU > 0 {
		n = min(n, cluster.Fraction(free.MilliCPU, t.pod.MilliCPU))
	}
	if t.pod.Memory > 0 {
		n = min(n, cluster.Fraction(free.Memory, t.pod.Memory))
	}
	return max(n, 0)
}

func (t *largePods) Update(i int) {
	if !t.nodes[i].Available() {
		return
	}
	free := t.nodes[i].Free()
	t.fits += t.fit(free) - t.fit(t.counted[i])
	t.free = t.free.Plus(free.Minus(t.counted[i]))
	t.counted[i] = free
}

func (t *largePods) Cost() float64 {
	empty := t.pooled(t.offered)
	if empty == 0 {
		return 0
	}
	return max(t.pooled(t.free)-float64(t.fits), 0) / empty
}

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
