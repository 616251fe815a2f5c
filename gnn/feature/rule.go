package feature

import (
	"cmp"
	"math"

	"gnnsched/internal/cluster"
)

func init() { Register(rule) }

// rule has the features of the linear policy, to which a network can add what it learns. Unlike those of other sets they
// are not bounded, so that a weighted sum of them is the policy's score at any size of the cluster. Those of the cluster are 0 from
// tooLarge nodes on: what reads nothing else changes the policy only at sizes at which it was learned.
var rule = &Set{
	Name:    "rule",
	Doc:     "What the linear policy weighs.",
	Version: 2,
	Cluster: []ClusterBlock{{Features: []Feature{
		{Name: "rule_small", Doc: "1 up to 128 available nodes, from there falling with their logarithm to 0 at 256", In: Fraction},
		{Name: "rule_preferred", Doc: "rule_small · log2(candidates that preferences leave / available nodes) / 4, at least -1; " +
			"all candidates, if it is not known"},
		{Name: "rule_load", Doc: "rule_small · (mean over the available nodes of CPU plus memory, as fractions, minus 1)"},
		{Name: "rule_crowd", Doc: "rule_preferred · rule_load / rule_small"},
	}, Fill: fillRuleCluster}},
	Candidate: []CandidateBlock{{Features: ruleFeatures(), Fill: fillRule}},
}

// RuleFeatures names the features of a candidate that a Rule computes, in order. Each is of order one whatever the
// cluster's size. A fraction is requested / allocatable of a node; a share is the pod's request / allocatable of a
// node. All means and deviations are over the available nodes.
var RuleFeatures = []string{"balance", "used", "skew", "share", "over", "match", "room", "empty", "size"}

// RuleDocs describes RuleFeatures.
var RuleDocs = []string{
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

func ruleFeatures() (out []Feature) {
	domains := map[string]Domain{"used": Fraction, "share": Fraction, "empty": Flag}
	for i, name := range RuleFeatures {
		out = append(out, Feature{Name: "rule_" + name, Doc: RuleDocs[i], In: domains[name]})
	}
	return out
}

// Rule holds what the features of all candidates have in common.
type Rule struct {
	Nodes            float64      // available ones
	CPU, Memory      cluster.Sums // of the available nodes' fractions
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

// NewRule returns the rule for a pod. running is the most CPU and memory that one pod on an available node requests.
func NewRule(nodes []*cluster.Node, pod *cluster.Pod, running cluster.Resources) Rule {
	f := Rule{request: pod.Requests.Counted(), largest: pod.Requests.Counted()}
	f.largest.MilliCPU, f.largest.Memory = max(f.largest.MilliCPU, running.MilliCPU), max(f.largest.Memory, running.Memory)
	var offered, used cluster.Resources
	for _, n := range nodes {
		if !n.Available() {
			continue
		}
		f.Nodes++
		c := n.Counted()
		cpu, memory := cluster.Fraction(c.MilliCPU, n.Allocatable.MilliCPU), cluster.Fraction(c.Memory, n.Allocatable.Memory)
		f.CPU.Add(cpu)
		f.Memory.Add(memory)
		f.skew.Add(cpu - memory)
		offered.MilliCPU, offered.Memory = offered.MilliCPU+n.Allocatable.MilliCPU, offered.Memory+n.Allocatable.Memory
		used.MilliCPU, used.Memory, used.Pods = used.MilliCPU+c.MilliCPU, used.Memory+c.Memory, used.Pods+c.Pods
		if k := &f.kinds; k.n < len(k.offers) && k.at(n.Allocatable) < 0 {
			k.offers[k.n] = n.Allocatable
			k.n++
		}
	}
	count := int64(max(f.Nodes, 1))
	f.mean = cluster.Resources{MilliCPU: offered.MilliCPU / count, Memory: offered.Memory / count}
	if used.Pods > 0 {
		each := cluster.Resources{MilliCPU: used.MilliCPU / used.Pods, Memory: used.Memory / used.Pods}
		f.podSize = logSize(f.size(f.request), f.size(each))
	}
	for i := range f.kinds.n {
		f.kinds.sizes[i] = logSize(f.size(f.kinds.offers[i]), 1)
	}
	f.cpuNow, f.memoryNow, f.skewNow = deviationOf(f.CPU), deviationOf(f.Memory), deviationOf(f.skew)
	return f
}

// Features writes the features of a candidate to x, in the order of RuleFeatures.
func (f *Rule) Features(n *cluster.Node, x []float64) {
	cpu, mem := cluster.Fraction(n.Counted().MilliCPU, n.Allocatable.MilliCPU), cluster.Fraction(n.Counted().Memory, n.Allocatable.Memory)
	dc, dm := cluster.Fraction(f.request.MilliCPU, n.Allocatable.MilliCPU), cluster.Fraction(f.request.Memory, n.Allocatable.Memory)
	c, m := f.CPU.Moved(cpu, dc), f.Memory.Moved(mem, dm)
	x[0] = f.Nodes * (f.cpuNow.std + f.memoryNow.std - c.Std() - m.Std())
	x[1] = (cpu + dc + mem + dm) / 2
	x[2] = f.Nodes * (f.skewNow.std - f.skew.Moved(cpu-mem, dc-dm).Std())
	x[3] = max(dc, dm)
	x[4] = f.cpuNow.over(cpu, dc) + f.memoryNow.over(mem, dm)
	x[8] = f.logOf(n.Allocatable)
	x[5] = f.podSize * x[8]
	free := n.Free()
	x[6] = float64(f.largest.FitsInto(free) - f.largest.FitsInto(free.Minus(f.request)))
	x[7] = float64(flag(n.Requested.Pods == 0))
}

// over returns the decrease of the squared excess of x over the mean when x grows by d, divided by
// the standard deviation.
func (s deviation) over(x, d float64) float64 {
	before, after := max(x-s.mean, 0), max(x+d-s.mean, 0)
	return (before*before - after*after) / (s.std + 0.01)
}

// logOf returns log2 of the size of a node that offers r.
func (f *Rule) logOf(r cluster.Resources) float64 {
	if i := f.kinds.at(r); i >= 0 {
		return f.kinds.sizes[i]
	}
	return logSize(f.size(r), 1)
}

// size returns the mean over CPU and memory of r / the mean that a node offers.
func (f *Rule) size(r cluster.Resources) float64 {
	return (cluster.Fraction(r.MilliCPU, f.mean.MilliCPU) + cluster.Fraction(r.Memory, f.mean.Memory)) / 2
}

// logSize returns log2(a / b), within ±4; 0 unless both are positive.
func logSize(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	return max(min(math.Log2(a/b), limit), -limit)
}

// fillRule writes the features of every candidate.
func fillRule(c *Candidates, out Rows) {
	f, x := NewRule(c.Nodes, c.Pod, c.LargestRunning), make([]float64, len(RuleFeatures))
	for i, v := range c.Rows {
		f.Features(c.Nodes[v], x)
		for j, row := 0, out.Row(i); j < len(x); j++ {
			row[j] = float32(x[j])
		}
	}
}

// tooLarge is the number of nodes from which on what was learned on smaller clusters does not count. At half of it it counts in full.
const tooLarge = 256

// fillRuleCluster writes the features of the cluster.
func fillRuleCluster(c *Candidates, out []float32) {
	nodes := max(c.all().cpu.N, 1)
	small := max(min(math.Log2(tooLarge/nodes), 1), 0)
	preferred := logSize(float64(cmp.Or(c.Preferred, len(c.Rows))), nodes) / 4
	load := c.all().cpu.Mean() + c.all().memory.Mean() - 1
	copy(out, []float32{float32(small), float32(small * preferred), float32(small * load), float32(small * preferred * load)})
}
