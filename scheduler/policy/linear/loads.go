package linear

import (
	"math"

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

// loads holds what these features of all candidates have in common.
type loads struct {
	nodes            float64      // available ones
	cpu, memory      cluster.Sums // of the available nodes' fractions
	skew             cluster.Sums // of the differences of both
	request, largest cluster.Resources
	podSize          float64           // log2(pending pod's size / mean running pod's size)
	mean             cluster.Resources // that an available node offers

	// What stays the same for all candidates, and is costly to compute for each.
	cpuNow, memoryNow, skewNow deviation
	kinds                      kinds
}

// kinds holds log2 of the sizes of the first few kinds of nodes.
type kinds struct {
	offers [8]cluster.Resources
	sizes  [8]float64
	n      int
}

// at returns the index of a kind; -1 if it is not among the first.
func (k *kinds) at(r cluster.Resources) int {
	for i := range k.n {
		if k.offers[i].MilliCPU == r.MilliCPU && k.offers[i].Memory == r.Memory {
			return i
		}
	}
	return -1
}

// deviation is the mean and the standard deviation of fractions.
type deviation struct{ mean, std float64 }

func deviationOf(s cluster.Sums) deviation { return deviation{s.Mean(), s.Std()} }

// newLoads returns the loads for a pod. running is the most CPU and memory that one pod on an available node requests.
func newLoads(nodes []*cluster.Node, pod *cluster.Pod, running cluster.Resources) loads {
	f := loads{request: pod.Requests.Counted(), largest: pod.Requests.Counted()}
	f.largest.MilliCPU, f.largest.Memory = max(f.largest.MilliCPU, running.MilliCPU), max(f.largest.Memory, running.Memory)
	var offered, used cluster.Resources
	for _, n := range nodes {
		if !n.Available() {
			continue
		}
		f.nodes++
		c := n.Counted()
		cpu, memory := cluster.Fraction(c.MilliCPU, n.Allocatable.MilliCPU), cluster.Fraction(c.Memory, n.Allocatable.Memory)
		f.cpu.Add(cpu)
		f.memory.Add(memory)
		f.skew.Add(cpu - memory)
		offered.MilliCPU, offered.Memory = offered.MilliCPU+n.Allocatable.MilliCPU, offered.Memory+n.Allocatable.Memory
		used.MilliCPU, used.Memory, used.Pods = used.MilliCPU+c.MilliCPU, used.Memory+c.Memory, used.Pods+c.Pods
		if k := &f.kinds; k.n < len(k.offers) && k.at(n.Allocatable) < 0 {
			k.offers[k.n] = n.Allocatable
			k.n++
		}
	}
	count := int64(max(f.nodes, 1))
	f.mean = cluster.Resources{MilliCPU: offered.MilliCPU / count, Memory: offered.Memory / count}
	if used.Pods > 0 {
		each := cluster.Resources{MilliCPU: used.MilliCPU / used.Pods, Memory: used.Memory / used.Pods}
		f.podSize = logSize(f.size(f.request), f.size(each))
	}
	for i := range f.kinds.n {
		f.kinds.sizes[i] = logSize(f.size(f.kinds.offers[i]), 1)
	}
	f.cpuNow, f.memoryNow, f.skewNow = deviationOf(f.cpu), deviationOf(f.memory), deviationOf(f.skew)
	return f
}

// features writes the features of a candidate to x, in the order of loadFeatures.
func (f *loads) features(n *cluster.Node, x []float64) {
	cpu, mem := cluster.Fraction(n.Counted().MilliCPU, n.Allocatable.MilliCPU), cluster.Fraction(n.Counted().Memory, n.Allocatable.Memory)
	dc, dm := cluster.Fraction(f.request.MilliCPU, n.Allocatable.MilliCPU), cluster.Fraction(f.request.Memory, n.Allocatable.Memory)
	c, m := f.cpu.Moved(cpu, dc), f.memory.Moved(mem, dm)
	x[0] = f.nodes * (f.cpuNow.std + f.memoryNow.std - c.Std() - m.Std())
	x[1] = (cpu + dc + mem + dm) / 2
	x[2] = f.nodes * (f.skewNow.std - f.skew.Moved(cpu-mem, dc-dm).Std())
	x[3] = max(dc, dm)
	x[4] = f.cpuNow.over(cpu, dc) + f.memoryNow.over(mem, dm)
	x[8] = f.logOf(n.Allocatable)
	x[5] = f.podSize * x[8]
	free := n.Free()
	x[6] = float64(f.largest.FitsInto(free) - f.largest.FitsInto(free.Minus(f.request)))
	x[7] = 0
	if n.Requested.Pods == 0 {
		x[7] = 1
	}
}

// over returns the decrease of the squared excess of x over the mean when x grows by d, divided by
// the standard deviation.
func (s deviation) over(x, d float64) float64 {
	before, after := max(x-s.mean, 0), max(x+d-s.mean, 0)
	return (before*before - after*after) / (s.std + 0.01)
}

// logOf returns log2 of the size of a node that offers r.
func (f *loads) logOf(r cluster.Resources) float64 {
	if i := f.kinds.at(r); i >= 0 {
		return f.kinds.sizes[i]
	}
	return logSize(f.size(r), 1)
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
