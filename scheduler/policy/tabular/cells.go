package tabular

import (
	"math"

	"gnnsched/internal/cluster"
)

// View holds the numbers of one decision that the cells of all candidates depend on.
type View struct {
	config   Config
	request  cluster.Resources
	cpu, mem float64 // means over the available nodes of requested / allocatable
	size     int     // the pod's bin
}

// View computes the view of a cluster and its pending pod.
func (a *Agent) View(s *cluster.Snapshot, pod *cluster.Pod) View {
	v := View{config: a.config, request: pod.Requests}
	var offered cluster.Resources
	var n float64
	for _, x := range s.Nodes {
		if !x.Available() {
			continue
		}
		n++
		v.cpu += cluster.Fraction(x.Requested.MilliCPU, x.Allocatable.MilliCPU)
		v.mem += cluster.Fraction(x.Requested.Memory, x.Allocatable.Memory)
		offered = offered.Plus(x.Allocatable)
	}
	if n > 0 {
		v.cpu, v.mem = v.cpu/n, v.mem/n
	}
	part := n * max(cluster.Fraction(pod.Requests.MilliCPU, offered.MilliCPU), cluster.Fraction(pod.Requests.Memory, offered.Memory))
	v.size = a.config.sizeBin(part)
	return v
}

// Cell returns the index of a candidate's value in the table.
func (v View) Cell(n *cluster.Node) int {
	cpu := cluster.Fraction(n.Requested.MilliCPU+v.request.MilliCPU, n.Allocatable.MilliCPU) - v.cpu
	mem := cluster.Fraction(n.Requested.Memory+v.request.Memory, n.Allocatable.Memory) - v.mem
	return (v.size*v.config.Bins+v.config.bin(cpu))*v.config.Bins + v.config.bin(mem)
}

// bin returns the bin of a distance d from the mean. The bins have equal widths in sign(d)·√|d|.
func (c Config) bin(d float64) int {
	at := math.Copysign(math.Sqrt(min(math.Abs(d)/c.Range, 1)), d) // -1 to 1
	return min(int((1+at)/2*float64(c.Bins)), c.Bins-1)
}

// sizeBin returns the bin of a pod that requests a part of a mean node: 0 for half a node or more, 1
// for a quarter or more, and so on.
func (c Config) sizeBin(part float64) int {
	if part <= 0 {
		return c.SizeBins - 1
	}
	return int(max(min(math.Ceil(-math.Log2(part))-1, float64(c.SizeBins-1)), 0))
}
