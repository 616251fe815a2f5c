package feature

import "gnnsched/internal/cluster"

func init() { Register(whole) }

// whole describes candidates against all available nodes. Base compares a candidate with the other
// candidates, which leave out the nodes that are full for the pending pod; the objectives count those too.
var whole = &Set{
	Name:    "whole",
	Doc:     "How even all available nodes are, and how a placement changes that.",
	Version: 1,
	Cluster: []ClusterBlock{
		One("all_cpu", "mean over the available nodes of requested / allocatable CPU",
			func(c *Candidates) float32 { return float32(c.all().cpu.Mean()) }),
		One("all_memory", "the same of memory", func(c *Candidates) float32 { return float32(c.all().memory.Mean()) }),
		One("all_cpu_std", "standard deviation over the available nodes of requested / allocatable CPU",
			func(c *Candidates) float32 { return float32(c.all().cpu.Std()) }),
		One("all_memory_std", "the same of memory", func(c *Candidates) float32 { return float32(c.all().memory.Std()) }),
		One("all_skew_std", "the same of CPU minus memory", func(c *Candidates) float32 { return float32(c.all().skew.Std()) }),
		One("pod_size", "log2(pod's size / mean running pod's size), within ±4", func(c *Candidates) float32 { return float32(c.all().podSize) }),
	},
	Candidate: []CandidateBlock{{Features: wholeFeatures[:], Fill: fillWhole}},
}

// wholeFeatures describe a candidate once the pod is placed there. Size is the mean over CPU and memory of an
// amount / the mean that an available node offers.
var wholeFeatures = [...]Feature{
	{Name: "all_balance", Doc: "by how much the placement lowers the standard deviations of CPU and of memory over the available nodes, " +
		"times these nodes, within ±4"},
	{Name: "all_skew", Doc: "the same of CPU minus memory"},
	{Name: "all_over", Doc: "decrease of the squared excess over the mean of all available nodes / the standard deviation, " +
		"CPU plus memory, within ±4"},
	{Name: "match", Doc: "pod_size · size, within ±4"},
	{Name: "size", Doc: "log2(the node's size), within ±4"},
	{Name: "empty", Doc: "1 if the node runs no pod, else 0", In: Flag},
}

// available holds the statistics of all available nodes.
type available struct {
	known             bool
	cpu, memory, skew moments
	mean              cluster.Resources // that a node offers
	podSize           float64           // log2(pending pod's size / mean running pod's size)
}

// all returns the statistics of all available nodes. They are computed once for each decision.
func (c *Candidates) all() *available {
	a := &c.available
	if a.known {
		return a
	}
	*a = available{known: true}
	var offered, used cluster.Resources
	for i, n := range c.Nodes {
		if !n.Available() {
			continue
		}
		u := &c.Usage[i]
		a.cpu.Add(float64(u.CPU))
		a.memory.Add(float64(u.Memory))
		a.skew.Add(float64(u.CPU - u.Memory))
		offered, used = offered.Plus(n.Allocatable), used.Plus(n.Requested)
	}
	nodes := max(int64(a.cpu.N), 1)
	a.mean = cluster.Resources{MilliCPU: offered.MilliCPU / nodes, Memory: offered.Memory / nodes}
	if used.Pods > 0 {
		each := cluster.Resources{MilliCPU: used.MilliCPU / used.Pods, Memory: used.Memory / used.Pods}
		a.podSize = logRatio(a.size(c.Pod.Requests), a.size(each))
	}
	return a
}

// size returns the mean over CPU and memory of r / the mean that a node offers.
func (a *available) size(r cluster.Resources) float64 {
	return (cluster.Fraction(r.MilliCPU, a.mean.MilliCPU) + cluster.Fraction(r.Memory, a.mean.Memory)) / 2
}

// fillWhole writes the features of every candidate.
func fillWhole(c *Candidates, out Rows) {
	a := c.all()
	cpu, memory, skew := a.cpu.rise(1), a.memory.rise(1), a.skew.rise(1)
	cpuOver, memoryOver := a.cpu.excess(), a.memory.excess()
	var sizes knownSizes
	for i, v := range c.Rows {
		n, s := c.Nodes[v], &c.Shares[i]
		size := sizes.of(n.Allocatable, a)
		x, y := s.CPU+s.AddCPU, s.Memory+s.AddMemory
		copy(out.Row(i), []float32{
			clamp(-cpu.by(x, s.AddCPU) - memory.by(y, s.AddMemory)),
			-skew.by(x-y, s.AddCPU-s.AddMemory),
			clamp(cpuOver.by(s.CPU, s.AddCPU) + memoryOver.by(s.Memory, s.AddMemory)),
			clamp(float32(a.podSize * size)),
			float32(size),
			flag(n.Requested.Pods == 0),
		})
	}
}

// knownSizes keeps log2 of the sizes of the last few kinds of nodes: a cluster has few kinds, and a logarithm for each
// node would be a tenth of a decision.
type knownSizes struct {
	kinds [8]cluster.Resources
	sizes [8]float64
	n     int
}

// of returns log2 of the size of a node that offers r, within ±4.
func (k *knownSizes) of(r cluster.Resources, a *available) float64 {
	known := min(k.n, len(k.kinds))
	for i := range known {
		if k.kinds[i].MilliCPU == r.MilliCPU && k.kinds[i].Memory == r.Memory {
			return k.sizes[i]
		}
	}
	at := k.n % len(k.kinds)
	k.n++
	k.kinds[at], k.sizes[at] = r, logRatio(a.size(r), 1)
	return k.sizes[at]
}

// excess computes by how much a value exceeds the mean of all nodes.
type excess struct{ mean, scale float64 }

func (m *moments) excess() excess { return excess{m.Mean(), m.Std() + 0.01} }

// by returns the decrease of the squared excess of x over the mean when x grows by d, divided by the
// standard deviation.
func (e excess) by(x, d float32) float32 {
	before, after := max(float64(x)-e.mean, 0), max(float64(x+d)-e.mean, 0)
	return float32((before*before - after*after) / e.scale)
}
