package checkpoint

// A network is a list of layers. A checkpoint's architecture gives the list. Package infer runs
// it forward in plain Go and follows it backward to explain a score; package torch trains it. None of them names a
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
//	path → candidate      sum over the candidate's paths, weighted by the share of the traffic
//	candidate → cluster   mean over the candidates
//	all others            the vector of the vertex that it belongs to: a candidate's node, zone and pod, say
//
// This is message passing in the manner of GraphSAGE (Hamilton et al. 2017) with one matrix a relation as in R-GCN
// (Schlichtkrull et al. 2018).

import "cmp"

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
	Path           // edge from a candidate to a node with peers of the pending pod
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
	Reads  Kind     // whose features are x if From is empty: Pod, which the cluster has one of, or 0 for the vertex's own
	// Scale is a layer of the cluster with one number, or as many as x has: x is multiplied by 1 + these (FiLM, Perez et al.
	// 2018). Empty for none.
	Scale string
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
	Reads Kind // whose features the parameter multiplies; 0 for none
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

// FeaturesOf returns the kind of vertex whose features a term without From reads.
func (t Term) FeaturesOf(l Layer) Kind { return cmp.Or(t.Reads, l.Of) }

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
				reads = t.FeaturesOf(l)
				in = w[reads]
			}
			all = append(all, Param{Name: t.Weight + ".weight", Shape: []int{l.Width, in}, Reads: reads})
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
