//go:build torch

package torch

import (
	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
)

// Network is infer.Network with gradients, over batches of graphs. The equations are in package
// infer's comment; the parity test compares the two.
type Network struct {
	Parameters
	// ValueApart stops the gradient of the value at the layers that only the value has
	// (ValueLayers), so that learning the value does not disturb the scores.
	ValueApart bool

	manifest checkpoint.Manifest
	hidden   int
	byName   map[string]*Tensor
}

// ValueLayers begins the names of the parameters that only the value depends on.
const ValueLayers = "value."

// Outputs are the results for a batch.
type Outputs struct {
	Scores *Tensor // [ΣC, 1]: a_i of every candidate
	Value  *Tensor // [B, 1]: V of every graph
}

// Q returns the value of every action, [ΣC, 1], from a dueling network (Wang et al. 2016):
// Q_i = V + a_i - mean a over the graph's candidates.
func (o Outputs) Q(s *Scope, b *graph.Batch) *Tensor {
	of := s.Int64(b.CandidateGraph, len(b.CandidateGraph))
	state := s.Sub(o.Value, segmentMean(s, o.Scores, of, b.CandidateGraph, b.Size))
	return s.Add(o.Scores, s.Rows(state, of))
}

// NewNetwork returns a network with the weights of a checkpoint.
func NewNetwork(c *checkpoint.Checkpoint) (*Network, error) {
	n := &Network{manifest: c.Manifest, hidden: c.Manifest.Architecture.Hidden}
	var err error
	if n.byName, err = n.load(c); err != nil {
		return nil, err
	}
	return n, nil
}

// Checkpoint returns the present weights with the manifest that NewNetwork was given.
func (n *Network) Checkpoint() (*checkpoint.Checkpoint, error) { return n.save(n.manifest) }

// Forward runs the network over a batch in the scope s. Check s.Err before you use the outputs.
func (n *Network) Forward(s *Scope, b *graph.Batch) Outputs {
	messages := n.manifest.Architecture.Encoder == checkpoint.GNN
	w, nodes := b.Widths, b.Nodes()
	graphs, cands := b.Size, len(b.CandidateNode)
	candGraph, candNode := s.Int64(b.CandidateGraph, cands), s.Int64(b.CandidateNode, cands)

	x := n.affine(s, "node", s.Float32(b.NodeX, nodes, w.Node), "node.bias")
	if messages && len(b.GroupNode) > 0 {
		x = s.Add(x, n.affine(s, "node.group", n.groupMessages(s, b, nodes), ""))
	}
	h := s.relu(s.layerNorm(x, n.byName["norm.weight"], n.byName["norm.bias"], 1e-5))

	p := s.relu(n.affine(s, "pod", s.Float32(b.PodX, graphs, w.Pod), "pod.bias"))
	c := n.affine(s, "cluster.features", s.Float32(b.ClusterX, graphs, w.Cluster), "cluster.bias")
	var zoneMean *Tensor
	if messages {
		var clusterMean *Tensor
		zoneMean, clusterMean = nodeMeans(s, b, h)
		c = s.Add(s.Add(c, n.affine(s, "cluster.node", clusterMean, "")), n.affine(s, "cluster.pod", p, ""))
	}
	c = s.relu(c)

	// The parts that all candidates of a graph, or of a zone, share are computed once and looked up.
	shared := s.Add(n.affine(s, "candidate.cluster", c, ""), n.affine(s, "candidate.pod", p, "candidate.bias"))
	k := s.Add(s.Rows(n.affine(s, "candidate.node", h, ""), candNode), s.Rows(shared, candGraph))
	if messages {
		z := s.Add(n.affine(s, "zone.node", zoneMean, ""), s.Rows(n.affine(s, "zone.cluster", c, "zone.bias"), s.Int64(b.ZoneGraph, len(b.ZoneGraph))))
		zone := n.affine(s, "candidate.zone", s.relu(z), "")
		k = s.Add(k, s.Rows(zone, s.Int64(b.CandidateZone, cands)))
	}
	if messages && w.Path > 0 && len(b.PathNode) > 0 {
		k = s.Add(k, n.affine(s, "candidate.peer", n.peerMessages(s, b, h), ""))
	}
	k = s.relu(s.Add(k, n.affine(s, "candidate.features", s.Float32(b.CandidateX, cands, w.Candidate), "")))

	mean := segmentMean(s, k, candGraph, b.CandidateGraph, graphs)
	state := s.Concat(1, c, p, mean)
	if n.ValueApart {
		state = s.Detach(state)
	}
	v := s.relu(n.affine(s, "value.hidden", state, "value.hidden.bias"))
	return Outputs{Scores: n.affine(s, "score", k, ""), Value: n.affine(s, "value.out", v, "value.out.bias")}
}

// groupMessages returns, for every node, the mean over its pods of their group's embedding:
// [nodes, H], zero for empty nodes.
func (n *Network) groupMessages(s *Scope, b *graph.Batch, nodes int) *Tensor {
	groups := len(b.GroupNode)
	g := s.relu(n.affine(s, "group", s.Float32(b.GroupX, groups, b.Widths.Group), "group.bias"))
	total := make([]float32, nodes)
	for i, v := range b.GroupNode {
		total[v] += b.GroupWeight[i]
	}
	share := make([]float32, groups)
	for i, v := range b.GroupNode {
		share[i] = b.GroupWeight[i] / total[v]
	}
	return s.segmentSum(s.Mul(g, s.Float32(share, groups, 1)), s.Int64(b.GroupNode, groups), nodes)
}

// peerMessages returns, for every candidate, what comes from the pending pod over the nodes of its peers: [ΣC, H].
func (n *Network) peerMessages(s *Scope, b *graph.Batch, h *Tensor) *Tensor {
	edges := len(b.PathNode)
	x := s.Rows(n.affine(s, "peer.node", h, "peer.bias"), s.Int64(b.PathNode, edges))
	x = s.relu(s.Add(x, n.affine(s, "peer.path", s.Float32(b.PathX, edges, b.Widths.Path), "")))
	return s.segmentSum(s.Mul(x, s.Float32(b.PathWeight, edges, 1)), s.Int64(b.PathCandidate, edges), len(b.CandidateNode))
}

// nodeMeans returns the means of the nodes' embeddings over each zone, [zones, H], and over each
// graph, [graphs, H]; zero for a zone without nodes.
func nodeMeans(s *Scope, b *graph.Batch, h *Tensor) (zone, cluster *Tensor) {
	if b.PlaceNode != nil {
		h = s.Rows(h, s.Int64(b.PlaceNode, len(b.PlaceNode)))
	}
	zones := len(b.ZoneGraph)
	sum := s.segmentSum(h, s.Int64(b.PlaceZone, len(b.PlaceZone)), zones)
	inZone, inGraph := make([]float32, zones), make([]float32, b.Size)
	for _, z := range b.PlaceZone {
		inZone[z]++
		inGraph[b.ZoneGraph[z]]++
	}
	all := s.segmentSum(sum, s.Int64(b.ZoneGraph, zones), b.Size)
	return s.Mul(sum, s.Float32(inverse(inZone), zones, 1)), s.Mul(all, s.Float32(inverse(inGraph), b.Size, 1))
}

// affine applies the linear map with the given name, with a bias unless bias is empty.
func (n *Network) affine(s *Scope, name string, x *Tensor, bias string) *Tensor {
	w := n.byName[name+".weight"]
	if bias == "" {
		return s.project(x, w)
	}
	return s.Linear(x, w, n.byName[bias])
}

// segmentMean returns the mean of the rows of x over each segment; zero for a segment without rows.
func segmentMean(s *Scope, x, segment *Tensor, rows []int64, segments int) *Tensor {
	count := make([]float32, segments)
	for _, r := range rows {
		count[r]++
	}
	return s.Mul(s.segmentSum(x, segment, segments), s.Float32(inverse(count), segments, 1))
}

// inverse replaces each count by 1/count, the factor from a sum to a mean; 1 for a count of zero.
func inverse(count []float32) []float32 {
	for i, c := range count {
		count[i] = 1 / max(c, 1)
	}
	return count
}
