package checkpoint

import (
	"fmt"
	"slices"

	"gnnsched/gnn/feature"
)

// Encoder is how node states become embeddings.
type Encoder string

// The encoders.
const (
	GNN Encoder = "gnn" // message passing: groups to nodes, nodes to zones and cluster, and back
	MLP Encoder = "mlp" // each candidate by itself, without messages

	// Linear has one weight for each feature of the node and nothing else, for the GPU graph only. It
	// is the baseline that the other encoders must beat.
	Linear Encoder = "linear"
)

// Graph is the kind of graph that a network reads.
type Graph string

// The graphs.
const (
	ClusterGraph Graph = ""    // graph.Graph: any cluster
	GPUGraph     Graph = "gpu" // graph.GPUNode: GPU clusters, device by device

	// KindsGraph is kinds of pods and nodes: any cluster whose pods are counted (cluster.Demand). Each node sends to each kind how many more
	// of its pods fit there, and the sums are features of the kind; with the encoder MLP nodes send nothing, and the sums are 0. The network
	// values the kinds. What a place is worth goes back to the nodes: see package supply.
	KindsGraph Graph = "kinds"
)

// Head is the meaning of the outputs and how they are trained.
type Head string

// The heads. Both give one score for each candidate and one value for the state, so they share a
// network. They differ in how the network learns.
const (
	// DQN chooses the candidate with the highest value: Q = value + score - mean score (dueling),
	// as its learner has it. On graphs of stars the score is how much a placement takes from the
	// value, which is learned from what episodes or a scheduler's placements come to.
	DQN Head = "dqn"
	// ActorCritic has the policy's logits as scores, and a critic's value.
	ActorCritic Head = "actor-critic"
)

// Architecture determines the parameters of a network and their shapes. Package infer has the
// equations.
type Architecture struct {
	Graph   Graph   `json:"graph,omitempty"`
	Encoder Encoder `json:"encoder"`
	Head    Head    `json:"head"`
	Hidden  int     `json:"hidden"` // width H of every embedding

	// Features names the sets of features that the network reads, in order. None means the set "base".
	Features []string `json:"features,omitempty"`
}

// String describes the network in a few words, such as "gnn dqn 32" or "gpu gnn dqn 24".
func (a Architecture) String() string {
	text := fmt.Sprintf("%s %s %d", a.Encoder, a.Head, a.Hidden)
	if a.Graph != ClusterGraph {
		text = string(a.Graph) + " " + text
	}
	return text
}

// Equal reports whether two architectures are the same.
func (a Architecture) Equal(b Architecture) bool {
	return a.Graph == b.Graph && a.Encoder == b.Encoder && a.Head == b.Head && a.Hidden == b.Hidden &&
		slices.Equal(a.Features, b.Features)
}

// Stars reports whether the graph is one of stars, whose centres the network values: see graph.GPUNode.
func (a Architecture) Stars() bool { return a.Graph == GPUGraph || a.Graph == KindsGraph }

// Layout returns the features that the network reads.
func (a Architecture) Layout() (*feature.Layout, error) {
	switch a.Graph {
	case GPUGraph:
		return feature.NewGPULayout(a.Features)
	case KindsGraph:
		return feature.NewKindLayout(a.Features)
	}
	return feature.NewLayout(a.Features)
}

// Schema identifies the features that the network reads: the hash of its layout. It is empty if the
// architecture names a set that is not known.
func (a Architecture) Schema() string {
	if l, err := a.Layout(); err == nil {
		return l.Hash()
	}
	return ""
}

// Validate checks the values. The error names the first that is wrong.
func (a Architecture) Validate() error {
	if a.Graph != ClusterGraph && !a.Stars() {
		return fmt.Errorf("graph %q is not known (gpu, kinds, or none)", a.Graph)
	}
	if a.Encoder != GNN && a.Encoder != MLP && (a.Encoder != Linear || a.Graph != GPUGraph) {
		return fmt.Errorf("encoder %q is not known (gnn, mlp; linear for the graph gpu)", a.Encoder)
	}
	if a.Head != DQN && a.Head != ActorCritic {
		return fmt.Errorf("head %q is not known (dqn, actor-critic)", a.Head)
	}
	if a.Hidden < 4 || a.Hidden > 1024 {
		return fmt.Errorf("hidden size %d is outside 4 to 1024", a.Hidden)
	}
	_, err := a.Layout()
	return err
}

// Layers lists the layers of the network; of one on GPUGraph with actor and critic those of the critic. The architecture must
// be valid.
func (a Architecture) Layers() []Layer {
	switch {
	case !a.Stars():
		return candidateLayers(a.Hidden, a.Encoder == GNN)
	case a.Encoder == Linear:
		return linearLayers("")
	}
	return nodeLayers(a.Hidden, a.devices(), "")
}

// Actor lists the layers of the actor in a network on GPUGraph with actor and critic; none in other networks.
func (a Architecture) Actor() []Layer {
	switch {
	case !a.Stars() || a.Head != ActorCritic:
		return nil
	case a.Encoder == Linear:
		return linearLayers(ActorPrefix)
	}
	return nodeLayers(a.Hidden, a.devices(), ActorPrefix)
}

// devices reports whether devices send messages to their node.
func (a Architecture) devices() bool { return a.Encoder == GNN && a.Graph == GPUGraph }

// ActorPrefix begins the names of the actor's parameters in a network on the GPU graph with actor and
// critic. The critic's names have no prefix.
const ActorPrefix = "actor."

// Params lists the parameters in a fixed order. The architecture must be valid.
func (a Architecture) Params() []Param {
	w := a.widths()
	return append(params(a.Layers(), w), params(a.Actor(), w)...)
}

// inputs returns the features that the network reads, by the kind of vertex. The architecture must be valid.
func (a Architecture) inputs() map[Kind][]feature.Feature {
	l, err := a.Layout()
	if err != nil {
		panic(err)
	}
	return map[Kind][]feature.Feature{
		Node: feature.List(l.Node), Group: feature.List(l.Group), Pod: feature.List(l.Pod),
		Cluster: feature.List(l.Cluster), Candidate: feature.List(l.Candidate),
		Device: make([]feature.Feature, feature.DeviceKnots), // only on graphs of stars
	}
}

// widths returns the numbers of features.
func (a Architecture) widths() widths {
	w := widths{}
	for kind, list := range a.inputs() {
		w[kind] = len(list)
	}
	return w
}
