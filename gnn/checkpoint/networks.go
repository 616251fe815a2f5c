package checkpoint

// The layers that hold a network's results.
const (
	Score = "score" // of each candidate, 1 number: larger is better
	Value = "value" // of the cluster, 1 number

	// The value of a node in the cluster is the product of two vectors of the same width.
	NodeValue    = "node.value"
	ClusterValue = "cluster.value"
)

// parts are the parts of a network that it may lack.
type parts struct {
	Messages bool // groups of pods send to their nodes, nodes to zones and the cluster, and these to the candidates
	Paths    bool // messages also come over paths, if there are messages
	Residual int  // features of a candidate of which a weighted sum is part of its score; 0 without such a sum
}

// candidateLayers returns a network that scores the candidates of a decision and values the state, with vectors of h numbers.
func candidateLayers(h int, parts parts) []Layer {
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
		{Name: Value, Of: Cluster, Width: 1, Terms: []Term{{Weight: "value.out", Bias: "value.out.bias", From: []string{"value.hidden"}}}},
	}
	var first []Layer
	if parts.Residual > 0 {
		first = []Layer{ofDecision("trust", 1), ofDecision("emphasis", parts.Residual)}
		results[0].Terms[0].Scale = "trust"
		results[0].Terms = append(results[0].Terms, Term{Weight: "score.features", Scale: "emphasis", added: 3})
	}
	if !parts.Messages {
		return append(append(first, node, pod, cluster, candidate), results...)
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
	list := append(first, group, node, pod, cluster, zone)
	if parts.Paths {
		list = append(list, Layer{Name: "peer", Of: Path, Width: h, ReLU: true, Terms: []Term{
			{Weight: "peer.node", From: []string{"node"}, Bias: "peer.bias", added: 2}, {Weight: "peer.path", added: 2},
		}})
		candidate.Terms = append(candidate.Terms, Term{Weight: "candidate.peer", From: []string{"peer"}, added: 2})
	}
	return append(append(list, candidate), results...)
}

// ofDecision returns a layer that makes numbers of what all candidates have in common: weighted sums of the features of cluster and pod.
func ofDecision(name string, width int) Layer {
	return Layer{Name: name, Of: Cluster, Width: width, Terms: []Term{
		{Weight: name + ".cluster", Bias: name + ".bias", added: 3}, {Weight: name + ".pod", Reads: Pod, added: 3},
	}}
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
