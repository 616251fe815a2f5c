package feature

import "math"

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
