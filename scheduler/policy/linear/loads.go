package linear

import (
	"math"
	"slices"

	"gnnsched/internal/cluster"
)

// loadFeatures names the features of a candidate that loads computes, in order. Each is of order one whatever the
// cluster's size. A fraction is requested / allocatable of a node; a share is the pod's request / allocatable of a
// node. All means and deviations are over the available nodes.
var loadFeatures = []string{"balance", "used", "skew", "share", "over", "match", "room", "empty", "size"}

// loadDocs describes loadFeatures.
var loadDocs = []string{
	"decrease of the sum of the CPU and memory fractions' standard deviations by the placement, times nodes",
	"mean of the CPU and memory fractions after placement",
	"decrease of the standard deviation of CPU fraction - memory fraction by the placement, times nodes",
	"the larger of the pod's CPU and memory shares",
	"decrease of the node's squared excess over the mean fraction, divided by the deviation; CPU plus memory",
	"log2(pod's size / mean pod's size) · log2(node's size / mean node's size)",
	"decrease of the number of pods as large as the largest pod seen that fit on the node",
	"1 if the node runs no pod, else 0",
	"log2(node's size / mean node's size)",
}

// loads holds what these features of all candidates have in common. It keeps what it saw of each node, and looks again at those that have
// changed since.
type loads struct {
	nodes            float64      // available ones
	cpu, memory      cluster.Sums // of the available nodes' fractions
	skew             cluster.Sums // of the differences of both
	request, largest cluster.Resources
	podSize          float64           // log2(pending pod's size / mean running pod's size)
	mean             cluster.Resources // that an available node offers

	cpuNow, memoryNow, skewNow deviation
	rows                       []row // of the snapshot
	classes                    []class
}

// row is a node as it was looked at.
type row struct {
	version     cluster.Version
	available   bool
	class       int32             // of loads.classes
	cpu, memory float64           // fractions
	used        cluster.Resources // what its pods count with
	largest     cluster.Resources // the most CPU and memory that one of its pods requests
	free        cluster.Resources
	empty       float64 // 1 if it runs no pod, else 0
}

// class is the nodes that offer the same CPU and memory.
type class struct {
	offers      cluster.Resources
	cpu, memory float64 // the pending pod's shares
	size        float64 // log2(size / mean size)
}

// deviation is the mean and the standard deviation of fractions.
type deviation struct{ mean, std float64 }

func deviationOf(s cluster.Sums) deviation { return deviation{s.Mean(), s.Std()} }

// look makes the features those of a pod on some nodes.
func (f *loads) look(nodes []*cluster.Node, pod *cluster.Pod) {
	if f.rows = append(f.rows, make([]row, max(len(nodes)-len(f.rows), 0))...)[:len(nodes)]; len(f.classes) > 2*len(nodes) {
		clear(f.rows)
		f.classes = f.classes[:0]
	}
	f.request = pod.Requests.Counted()
	f.nodes, f.cpu, f.memory, f.skew, f.largest = 0, cluster.Sums{}, cluster.Sums{}, cluster.Sums{}, f.request
	var offered, used cluster.Resources
	for i, n := range nodes {
		r := &f.rows[i]
		if !n.Unchanged(r.version) {
			f.see(r, n)
		}
		if !r.available {
			continue
		}
		f.nodes++
		f.cpu.Add(r.cpu)
		f.memory.Add(r.memory)
		f.skew.Add(r.cpu - r.memory)
		f.largest.MilliCPU, f.largest.Memory = max(f.largest.MilliCPU, r.largest.MilliCPU), max(f.largest.Memory, r.largest.Memory)
		offers := &f.classes[r.class].offers
		offered.MilliCPU, offered.Memory = offered.MilliCPU+offers.MilliCPU, offered.Memory+offers.Memory
		used.MilliCPU, used.Memory, used.Pods = used.MilliCPU+r.used.MilliCPU, used.Memory+r.used.Memory, used.Pods+r.used.Pods
	}
	count := int64(max(f.nodes, 1))
	f.mean = cluster.Resources{MilliCPU: offered.MilliCPU / count, Memory: offered.Memory / count}
	f.podSize = 0
	if used.Pods > 0 {
		each := cluster.Resources{MilliCPU: used.MilliCPU / used.Pods, Memory: used.Memory / used.Pods}
		f.podSize = logSize(f.size(f.request), f.size(each))
	}
	for i := range f.classes {
		c := &f.classes[i]
		c.cpu, c.memory = cluster.Fraction(f.request.MilliCPU, c.offers.MilliCPU), cluster.Fraction(f.request.Memory, c.offers.Memory)
		c.size = logSize(f.size(c.offers), 1)
	}
	f.cpuNow, f.memoryNow, f.skewNow = deviationOf(f.cpu), deviationOf(f.memory), deviationOf(f.skew)
}

// see looks at a node.
func (f *loads) see(r *row, n *cluster.Node) {
	*r = row{version: n.Version, available: n.Available(), class: f.classOf(n.Allocatable), used: n.Counted(), free: n.Free()}
	r.cpu, r.memory = cluster.Fraction(r.used.MilliCPU, n.Allocatable.MilliCPU), cluster.Fraction(r.used.Memory, n.Allocatable.Memory)
	for _, g := range n.Groups {
		r.largest.MilliCPU, r.largest.Memory = max(r.largest.MilliCPU, g.Each.MilliCPU), max(r.largest.Memory, g.Each.Memory)
	}
	if n.Requested.Pods == 0 {
		r.empty = 1
	}
}

// classOf returns the class of nodes that offer r.
func (f *loads) classOf(r cluster.Resources) int32 {
	i := slices.IndexFunc(f.classes, func(c class) bool { return c.offers.MilliCPU == r.MilliCPU && c.offers.Memory == r.Memory })
	if i < 0 {
		i, f.classes = len(f.classes), append(f.classes, class{offers: r})
	}
	return int32(i)
}

// features writes the features of the node of a row to x, in the order of loadFeatures.
func (f *loads) features(v int32, x []float64) {
	r := &f.rows[v]
	of := &f.classes[r.class]
	c, m := f.cpu.Moved(r.cpu, of.cpu), f.memory.Moved(r.memory, of.memory)
	x[0] = f.nodes * (f.cpuNow.std + f.memoryNow.std - c.Std() - m.Std())
	x[1] = (r.cpu + of.cpu + r.memory + of.memory) / 2
	x[2] = f.nodes * (f.skewNow.std - f.skew.Moved(r.cpu-r.memory, of.cpu-of.memory).Std())
	x[3] = max(of.cpu, of.memory)
	x[4] = f.cpuNow.over(r.cpu, of.cpu) + f.memoryNow.over(r.memory, of.memory)
	x[5] = f.podSize * of.size
	x[6] = f.fit(r.free.MilliCPU, r.free.Memory) - f.fit(r.free.MilliCPU-f.request.MilliCPU, r.free.Memory-f.request.Memory)
	x[7] = r.empty
	x[8] = of.size
}

// fit returns how many pods as large as the largest fit into so much. Quotients of whole numbers below 2^53 are exact here, and much
// faster than those of integers.
func (f *loads) fit(milliCPU, memory int64) float64 {
	n := int64(float64(milliCPU) / float64(f.largest.MilliCPU))
	if m := int64(float64(memory) / float64(f.largest.Memory)); m < n {
		n = m
	}
	return float64(min(max(n, 0), 1<<20))
}

// over returns the decrease of the squared excess of x over the mean when x grows by d, divided by
// the standard deviation.
func (s deviation) over(x, d float64) float64 {
	before, after := max(x-s.mean, 0), max(x+d-s.mean, 0)
	return (before*before - after*after) / (s.std + 0.01)
}

// size returns the mean over CPU and memory of r / the mean that a node offers.
func (f *loads) size(r cluster.Resources) float64 {
	return (cluster.Fraction(r.MilliCPU, f.mean.MilliCPU) + cluster.Fraction(r.Memory, f.mean.Memory)) / 2
}

// logSize returns log2(a / b), within ±4; 0 unless both are positive.
func logSize(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	return max(min(math.Log2(a/b), 4), -4)
}
