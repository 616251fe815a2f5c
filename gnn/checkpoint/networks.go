package checkpoint

// The layers that hold a network's results.
const (
	Score = "score" // of each candidate, 1 number: larger is better
	value = "value" // of the cluster, 1 number; only a learner reads it

	// The value of a node in the cluster is the product of two vectors of the same width.
	NodeValue    = "node.value"
	ClusterValue = "cluster.value"
)

// candidateLayers returns a network that scores the candidates of a decision and values the state, with vectors of h numbers. With
// messages, groups of pods send to their nodes, nodes to zones and the cluster, and these to the candidates.
func candidateLayers(h int, messages bool) []Layer {
	node := Layer{Name: "node", Of: Node, Width: h, Norm: "norm", ReLU: true, Terms: []Term{{Weight: "node", Bias: "node.bias"}}}
	pod := Layer{Name: "pod", Of: Pod, Width: h, ReLU: true, Terms: []Term{{Weight: "pod", Bias: "pod.bias"}}}
	cluster := Layer{Name: "cluster", Of: Cluster, Width: h, ReLU: true, Terms: []Term{{Weight: "cluster.features", Bias: "cluster.bias"}}}
	candidate := Layer{Name: "candidate", Of: Candidate, Width: h, ReLU: true, Terms: []Term{
		{Weight: "candidate.features"},
		{Weight: "candidate.node", From: []string{"node"}},
		{Weight: "candidate.cluster", From: []string{"cluster"}},
		{Weight: "candidate.pod", From: []string{"pod"}, Bias: "candidate.bias"},
	}}
	results := []Layer{
		{Name: Score, Of: Candidate, Width: 1, Terms: []Term{{Weight: "score", From: []string{"candidate"}}}},
		{Name: "value.hidden", Of: Cluster, Width: h, ReLU: true,
			Terms: []Term{{Weight: "value.hidden", Bias: "value.hidden.bias", From: []string{"cluster", "pod", "candidate"}}}},
		{Name: value, Of: Cluster, Width: 1, Terms: []Term{{Weight: "value.out", Bias: "value.out.bias", From: []string{"value.hidden"}}}},
	}
	if !messages {
		return append([]Layer{node, pod, cluster, candidate}, results...)
	}
	group := Layer{Name: "group", Of: Group, Width: h, ReLU: true, Terms: []Term{{Weight: "group", Bias: "group.bias", added: 1}}}
	node.Terms = append(node.Terms, Term{Weight: "node.group", From: []string{"group"}, added: 1})
	cluster.Terms = append(cluster.Terms, Term{Weight: "cluster.node", From: []string{"node"}, added: 1},
		Term{Weight: "cluster.pod", From: []string{"pod"}, added: 1})
	zone := Layer{Name: "zone", Of: Zone, Width: h, ReLU: true, Terms: []Term{
		{Weight: "zone.node", From: []string{"node"}, added: 1},
		{Weight: "zone.cluster", From: []string{"cluster"}, Bias: "zone.bias", added: 1},
	}}
	candidate.Terms = append(candidate.Terms, Term{Weight: "candidate.zone", From: []string{"zone"}, added: 1})
	return append([]Layer{group, node, pod, cluster, zone, candidate}, results...)
}

// nodeLayers returns a network that values each node within its cluster: the product of NodeValue and ClusterValue, vectors of h
// numbers. With messages, the node's devices send to it. prefix begins the names of the parameters.
//
// The value of a cluster is the sum over its nodes (value decomposition as in Sunehag et al. 2018). It predicts a
// cost, so a placement is worth the value of the node before it minus the value after it.
func nodeLayers(h int, messages bool, prefix string) []Layer {
	own := Layer{Name: "own", Of: Node, Width: 2 * h, Terms: []Term{{Weight: prefix + "node", Bias: prefix + "node.bias"}}}
	node := Layer{Name: "node", Of: Node, Width: 2 * h, ReLU: true, Terms: []Term{{From: []string{"own"}}}}
	list := []Layer{own}
	if messages {
		list = append(list,
			Layer{Name: "device.node", Of: Node, Width: h, Terms: []Term{{Weight: prefix + "device", Bias: prefix + "device.bias"}}},
			Layer{Name: "device", Of: Device, Width: h, ReLU: true,
				Terms: []Term{{From: []string{"device.node"}}, {Weight: prefix + "device.free"}}},
		)
		node.Terms = append(node.Terms, Term{Weight: prefix + "node.device", From: []string{"device"}})
	}
	return append(list, node,
		Layer{Name: NodeValue, Of: Node, Width: h,
			Terms: []Term{{Weight: prefix + "node.out", Bias: prefix + "node.out.bias", From: []string{"node"}}}},
		Layer{Name: "cluster", Of: Cluster, Width: 2 * h, ReLU: true, Terms: []Term{{Weight: prefix + "cluster", Bias: prefix + "cluster.bias"}}},
		Layer{Name: ClusterValue, Of: Cluster, Width: h,
			Terms: []Term{{Weight: prefix + "cluster.out", Bias: prefix + "cluster.out.bias", From: []string{"cluster"}}}},
	)
}

// linearLayers returns a network in which the value of a node is a weighted sum of its features.
func linearLayers(prefix string) []Layer {
	return []Layer{{Name: NodeValue, Of: Node, Width: 1, Terms: []Term{{Weight: prefix + "node", Bias: prefix + "node.bias"}}}}
}

// A network is a list of layers. A checkpoint's architecture gives the list. Package infer runs
// it forward in plain Go and follows it backward to explain a score; package torch trains those on graphs of stars. None of them names a
// layer, so that a new one is a line in a list here. A term that computes something else than these is also a case in each place that
// interprets terms: Layer.params in this file, newProgram, term.add and tape.add in infer, Network.affine in torch, and the start values in
// checkpoint.Random.
//
// A layer gives one vector to each vertex of a Kind: the sum of some terms, normalised and rectified if the layer
// says so. A term is a matrix times the features of the vertex, or times the vectors of an earlier layer. Where that
// layer is of another kind, the two kinds decide how its vectors become one:
//
//	group → node          mean over the groups of pods on the node, weighted by pods
//	device → node         sum over the node's devices
//	node → zone, cluster  mean over the nodes of the zone, or of the cluster
//	candidate → cluster   mean over the candidates
//	all others            the vector of the vertex that it belongs to: a candidate's node, zone and pod, say
//
// This is message passing in the manner of GraphSAGE (Hamilton et al. 2017) with one matrix a relation as in R-GCN
// (Schlichtkrull et al. 2018).

// Kind is a kind of vertex of a graph, or of edge.
type Kind int

// The kinds.
const (
	_         Kind = iota
	Node           // with the pods and devices that it has
	Group          // equal pods that run on a node
	Device         // GPU of a node
	Pod            // the pending one
	Cluster        // everything
	Zone           // nodes that lie together
	Candidate      // edge from the pending pod to a node where it may run
)

// Layer gives a vector to each vertex of a kind.
type Layer struct {
	Name  string // by which later layers name it
	Of    Kind
	Width int // of the vectors
	Terms []Term
	Norm  string // begins the names of the weight and bias of a LayerNorm (Ba et al. 2016) over the sum; empty for none
	ReLU  bool   // negative numbers become 0, after the norm
}

// Term is a part of a layer's sum: W x + b.
type Term struct {
	Weight string   // begins the name of W, which is Layer.Width × the width of x; empty for x itself
	Bias   string   // name of b; empty for none
	From   []string // layers whose vectors are x, one behind the other; none for features
	// added is 0 for what networks always had. A file has the parameters of what was added later behind all that was
	// there before.
	added int
}

// widths are the numbers of features of the vertices, by kind.
type widths map[Kind]int

// Param is the name and the shape of one parameter, in PyTorch's convention: a weight is out × in.
type Param struct {
	Name  string
	Shape []int
	reads Kind // whose features the parameter multiplies; 0 for none
}

// params lists the parameters of some layers on vertices of the given widths, in the order of a file.
func params(layers []Layer, w widths) (all []Param) {
	width, last := map[string]int{}, 0
	for _, l := range layers {
		width[l.Name] = l.Width
		for _, t := range l.Terms {
			last = max(last, t.added)
		}
	}
	for added := range last + 1 {
		for _, l := range layers {
			all = append(all, l.params(w, width, added)...)
		}
	}
	return all
}

// params lists the parameters of the layer's terms that were added at one time: weights, then biases, then the norm. width
// is that of each layer by its name.
func (l Layer) params(w widths, width map[string]int, added int) (all []Param) {
	var biases []Param
	for i, t := range l.Terms {
		if t.added != added {
			continue
		}
		if t.Weight != "" {
			in, reads := 0, Kind(0)
			for _, name := range t.From {
				in += width[name]
			}
			if len(t.From) == 0 {
				reads = l.Of
				in = w[reads]
			}
			all = append(all, Param{Name: t.Weight + ".weight", Shape: []int{l.Width, in}, reads: reads})
		}
		if t.Bias != "" {
			biases = append(biases, Param{Name: t.Bias, Shape: []int{l.Width}})
		}
		if i == 0 && l.Norm != "" {
			biases = append(biases, Param{Name: l.Norm + ".weight", Shape: []int{l.Width}}, Param{Name: l.Norm + ".bias", Shape: []int{l.Width}})
		}
	}
	return append(all, biases...)
}
