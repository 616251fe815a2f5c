package feature

import (
	"math"

	"gnnsched/internal/cluster"
)

// Base is the set that networks on any cluster read unless their architecture names others.
var Base = &Set{
	Name:    "base",
	Doc:     "Requests of CPU, memory, pods and GPUs, and how evenly they are spread.",
	Version: 1,
	Node:    []NodeBlock{{Features: nodeFeatures[:], Fill: fillNode}},
	Group:   []GroupBlock{{Features: groupFeatures[:], Fill: fillGroup}},
	Pod: []PodBlock{
		One("cpu", "requested CPU / mean allocatable CPU of the nodes", func(p *Pod) float32 { return float32(p.CPU) }),
		One("memory", "requested memory / mean allocatable memory of the nodes", func(p *Pod) float32 { return float32(p.Memory) }),
		rarely(One("gpu", "requested GPUs / mean allocatable GPUs of the nodes", func(p *Pod) float32 { return float32(p.GPU) })),
		One("log_cpu_memory", "log2(cpu / memory), within ±4", func(p *Pod) float32 { return float32(logRatio(p.CPU, p.Memory)) }),
		rarely(One("no_cpu", "1 if the pod requests no CPU, else 0", func(p *Pod) float32 { return flag(p.State.Requests.MilliCPU == 0) })),
		rarely(One("no_memory", "1 if the pod requests no memory, else 0", func(p *Pod) float32 { return flag(p.State.Requests.Memory == 0) })),
	},
	Cluster: []ClusterBlock{
		One("cpu", "mean over the candidates of requested / allocatable CPU", func(c *Candidates) float32 { return float32(c.cpu.Mean()) }),
		One("memory", "the same of memory", func(c *Candidates) float32 { return float32(c.memory.Mean()) }),
		One("cpu_std", "standard deviation over the candidates of requested / allocatable CPU",
			func(c *Candidates) float32 { return float32(c.cpu.Std()) }),
		One("memory_std", "the same of memory", func(c *Candidates) float32 { return float32(c.memory.Std()) }),
		One("feasible", "candidates / nodes", func(c *Candidates) float32 { return ratio(int64(len(c.Rows)), int64(len(c.Nodes))) }),
	},
	Candidate: []CandidateBlock{{Features: candidateFeatures[:], Fill: fillCandidates}},
}

// nodeFeatures describe a node. One function computes all of them, and likewise those of a group: they are
// computed anew at every placement, and a call for each would be a tenth of a decision on ten nodes.
var nodeFeatures = [...]Feature{
	{Name: "cpu", Doc: "requested / allocatable CPU", In: Fraction},
	{Name: "memory", Doc: "requested / allocatable memory", In: Fraction},
	{Name: "pods", Doc: "running pods / pod slots", In: Fraction},
	{Name: "gpu", Doc: "requested / allocatable GPUs", Rare: true, In: Fraction},
	{Name: "imbalance", Doc: "|cpu - memory|", In: Fraction},
	{Name: "log_cpu", Doc: "log2(allocatable CPU / mean over the nodes), within ±4"},
	{Name: "log_memory", Doc: "log2(allocatable memory / mean over the nodes), within ±4"},
	{Name: "has_gpu", Doc: "1 if the node has GPUs, else 0", Rare: true, In: Flag},
	{Name: "unavailable", Doc: "1 if the node is cordoned or tainted against ordinary pods, else 0", In: Flag},
}

// fillNode writes the features of a node.
func fillNode(n *Node, out []float32) {
	requested, allocatable := &n.State.Requested, &n.State.Allocatable
	*(*[len(nodeFeatures)]float32)(out) = [len(nodeFeatures)]float32{
		float32(n.CPU),
		float32(n.Memory),
		float32(cluster.Fraction(requested.Pods, allocatable.Pods)),
		float32(cluster.Fraction(requested.GPU, allocatable.GPU)),
		float32(math.Abs(n.CPU - n.Memory)),
		float32(logRatio(float64(allocatable.MilliCPU), n.Offered.Mean(n.Offered.Sum.MilliCPU))),
		float32(logRatio(float64(allocatable.Memory), n.Offered.Mean(n.Offered.Sum.Memory))),
		flag(allocatable.GPU > 0),
		flag(!n.State.Available()),
	}
}

// groupFeatures describe a group of equal pods on a node.
var groupFeatures = [...]Feature{
	{Name: "each_cpu", Doc: "CPU of one pod / allocatable CPU of its node"},
	{Name: "each_memory", Doc: "memory of one pod / allocatable memory of its node"},
	{Name: "each_gpu", Doc: "GPUs of one pod / allocatable GPUs of its node", Rare: true},
	{Name: "cpu", Doc: "CPU of the whole group / allocatable CPU of its node", In: Fraction},
	{Name: "memory", Doc: "memory of the whole group / allocatable memory of its node", In: Fraction},
	{Name: "pods", Doc: "pods of the group / pod slots of its node", In: Fraction},
}

// fillGroup writes the features of a group.
func fillGroup(g *Group, out []float32) {
	allocatable := &g.Node.Allocatable
	*(*[len(groupFeatures)]float32)(out) = [len(groupFeatures)]float32{
		ratio(g.Each.MilliCPU, allocatable.MilliCPU),
		ratio(g.Each.Memory, allocatable.Memory),
		ratio(g.Each.GPU, allocatable.GPU),
		ratio(g.Total.MilliCPU, allocatable.MilliCPU),
		ratio(g.Total.Memory, allocatable.Memory),
		ratio(g.Total.Pods, allocatable.Pods),
	}
}

// The columns of Base's candidate features.
const (
	afterCPU = iota
	afterMemory
	afterPods
	afterGPU
	imbalance
	addCPU
	addMemory
	cpuOff
	memoryOff
	cpuZ
	memoryZ
	cpuRise
	memoryRise
	skewRise
	room
	candidateColumns
)

// candidateFeatures describe a candidate once the pod is placed there. "Spread" is the standard
// deviation over the candidates, now, plus the mean share that the pod would add.
var candidateFeatures = [candidateColumns]Feature{
	afterCPU:    {Name: "cpu", Doc: "requested / allocatable CPU", In: Fraction},
	afterMemory: {Name: "memory", Doc: "requested / allocatable memory", In: Fraction},
	afterPods:   {Name: "pods", Doc: "pods / pod slots", In: Fraction},
	afterGPU:    {Name: "gpu", Doc: "requested / allocatable GPUs", Rare: true, In: Fraction},
	imbalance:   {Name: "imbalance", Doc: "|cpu - memory|", In: Fraction},
	addCPU:      {Name: "add_cpu", Doc: "CPU of the pod / allocatable CPU", In: Fraction},
	addMemory:   {Name: "add_memory", Doc: "memory of the pod / allocatable memory", In: Fraction},
	cpuOff:      {Name: "cpu_off", Doc: "cpu - mean over the candidates now", In: Difference},
	memoryOff:   {Name: "memory_off", Doc: "memory - mean over the candidates now", In: Difference},
	cpuZ:        {Name: "cpu_z", Doc: "cpu_off / spread of CPU, within ±4"},
	memoryZ:     {Name: "memory_z", Doc: "memory_off / spread of memory, within ±4"},
	cpuRise: {Name: "cpu_rise", Doc: "by how much the placement raises the standard deviation of CPU, " +
		"times the candidates / the mean of both spreads, within ±4"},
	memoryRise: {Name: "memory_rise", Doc: "the same of memory"},
	skewRise:   {Name: "skew_rise", Doc: "the same of CPU minus memory"},
	room: {Name: "room", Doc: "how many fewer pods fit that request as much as the largest pod, running or pending; up to 4",
		In: Amount},
}

// fillCandidates writes the features of every candidate.
func fillCandidates(c *Candidates, out Rows) {
	meanCPU, meanMemory := float32(c.cpu.Mean()), float32(c.memory.Mean())
	perCPU, perMemory := 1/(c.cpu.Std()+c.addCPU.Mean()+1e-6), 1/(c.memory.Std()+c.addMemory.Mean()+1e-6)
	common := 2 / (1/perCPU + 1/perMemory) // one scale, so that the rises of both resources can be added
	cpu, memory := c.cpu.rise(common), c.memory.rise(common)
	skew, r := c.skew.rise(common), c.Pod.Requests
	for i, v := range c.Rows {
		n, s := c.Nodes[v], &c.Shares[i]
		row := (*[candidateColumns]float32)(out.Row(i))
		x, y := s.CPU+s.AddCPU, s.Memory+s.AddMemory
		row[afterCPU], row[afterMemory] = x, y
		row[afterPods] = ratio(n.Requested.Pods+1, n.Allocatable.Pods)
		row[afterGPU] = ratio(n.Requested.GPU+r.GPU, n.Allocatable.GPU)
		row[imbalance] = abs(x - y)
		row[addCPU], row[addMemory] = s.AddCPU, s.AddMemory
		offCPU, offMemory := x-meanCPU, y-meanMemory
		row[cpuOff], row[memoryOff] = offCPU, offMemory
		row[cpuZ], row[memoryZ] = clamp(offCPU*float32(perCPU)), clamp(offMemory*float32(perMemory))
		row[cpuRise], row[memoryRise] = cpu.by(x, s.AddCPU), memory.by(y, s.AddMemory)
		row[skewRise] = skew.by(x-y, s.AddCPU-s.AddMemory)
		row[room] = lessRoom(c.Largest, n.Free(), r)
	}
}

// Kind is the context of the features of a kind of pods on the graph of kinds.
type Kind struct {
	Share    float64 // of the pods that arrived
	Expected float64 // pods of the kind among as many arrivals as pods run
	Waiting  float64 // pods without a node
	Free     float64 // further pods that fit
	Places   float64 // pods that would fit if no pod ran
	Size     float64 // what a pod requests of a mean node: the largest share of CPU, memory and devices
	Breadth  float64 // share of the nodes on which pods of the kind may run
}

// Kinds is the context of the features of a cluster on the graph of kinds.
type Kinds struct {
	CPU, Memory float64 // requested / allocatable
	Waiting     float64 // what waiting pods request, as a share of what the nodes offer
	Nodes       float64
	Running     float64 // pods
}

// KindBase is the set that networks on the graph of kinds read. Logarithms are natural, and of 1 more, so that nothing is 0.
var KindBase = &Set{
	Name:    "kinds",
	Doc:     "Demand and room of kinds of pods.",
	Version: 1,
	Stars:   kindStars,
	Node: []NodeBlock{
		ofKind("share", "logarithm of 1000 times the share of arrivals, / 5", func(k *Kind) float64 { return math.Log1p(1000*k.Share) / 5 }),
		ofKind("expected", "logarithm of the pods expected among as many arrivals as pods run, / 5",
			func(k *Kind) float64 { return math.Log1p(k.Expected) / 5 }),
		ofKind("waiting", "logarithm of the waiting pods, / 3", func(k *Kind) float64 { return math.Log1p(k.Waiting) / 3 }),
		ofKind("free", "logarithm of the further pods that fit, / 5", func(k *Kind) float64 { return math.Log1p(k.Free) / 5 }),
		ofKind("none_free", "1 / (1 + further pods that fit)", func(k *Kind) float64 { return 1 / (1 + k.Free) }),
		ofKind("places", "logarithm of the pods that would fit if none ran, / 5", func(k *Kind) float64 { return math.Log1p(k.Places) / 5 }),
		ofKind("left", "(1 + further pods that fit) / (1 + pods that would fit if none ran)",
			func(k *Kind) float64 { return (1 + k.Free) / (1 + k.Places) }),
		ofKind("per_expected", "logarithm of (1 + further pods that fit) / (1 + expected), / 3",
			func(k *Kind) float64 { return math.Log((1+k.Free)/(1+k.Expected)) / 3 }),
		ofKind("size", "what a pod requests of a mean node, up to 2", func(k *Kind) float64 { return min(k.Size, 2) }),
		ofKind("breadth", "share of the nodes on which the kind may run", func(k *Kind) float64 { return k.Breadth }),
	},
	Cluster: []ClusterBlock{
		ofKinds("cpu", "requested / allocatable CPU", func(c *Kinds) float64 { return c.CPU }),
		ofKinds("memory", "requested / allocatable memory", func(c *Kinds) float64 { return c.Memory }),
		ofKinds("waiting", "10 times what waiting pods request, as a share of what the nodes offer, up to 2",
			func(c *Kinds) float64 { return min(10*c.Waiting, 2) }),
		ofKinds("nodes", "logarithm of the nodes, / 5", func(c *Kinds) float64 { return math.Log1p(c.Nodes) / 5 }),
		ofKinds("pods", "logarithm of the running pods, / 7", func(c *Kinds) float64 { return math.Log1p(c.Running) / 7 }),
	},
}

func ofKind(name, doc string, value func(*Kind) float64) NodeBlock {
	return inDomain(Amount, One(name, doc, func(n *Node) float32 { return float32(value(n.Kind)) }))
}

func ofKinds(name, doc string, value func(*Kinds) float64) ClusterBlock {
	return inDomain(Amount, One(name, doc, func(c *Candidates) float32 { return float32(value(c.Kinds)) }))
}
