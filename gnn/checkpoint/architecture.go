package checkpoint

import (
	"fmt"

	"gnnsched/gnn/graph"
)

// Encoder says how node states become embeddings.
type Encoder string

// The encoders.
const (
	GNN Encoder = "gnn" // message passing: groups to nodes, nodes to zones and cluster, and back
	MLP Encoder = "mlp" // each candidate by itself, no messages

	// Linear is one weight a feature of the node, and nothing else: what the others must
	// beat to be worth having. For the GPU graph only.
	Linear Encoder = "linear"
)

// Graph says which graph a network reads.
type Graph string

// The graphs.
const (
	ClusterGraph Graph = ""    // graph.Graph: any cluster
	GPUGraph     Graph = "gpu" // graph.GPUNode: GPU clusters, device by device
)

// Head says what the outputs mean and how they are trained.
type Head string

// The heads. Both give one score a candidate and one value a state, so that they share a
// network; they differ in what learning makes of them.
const (
	// DQN is greedy on a value: Q = value + score - mean score (dueling), learned by deep
	// Q-learning; on the GPU graph what a placement takes from the value, learned from episodes'
	// ends.
	DQN Head = "dqn"
	// ActorCritic has scores that are the policy's logits, and a critic's value.
	ActorCritic Head = "actor-critic"
)

// Architecture fixes the parameters of a network and their shapes. See gnn/infer for the
// equations.
type Architecture struct {
	Graph   Graph   `json:"graph,omitempty"`
	Encoder Encoder `json:"encoder"`
	Head    Head    `json:"head"`
	Hidden  int     `json:"hidden"` // width H of every embedding
}

// Schema identifies the features that the network reads.
func (a Architecture) Schema() string {
	if a.Graph == GPUGraph {
		return graph.GPUSchemaHash()
	}
	return graph.SchemaHash()
}

// Validate checks the values.
func (a Architecture) Validate() error {
	if a.Graph != ClusterGraph && a.Graph != GPUGraph {
		return fmt.Errorf("graph %q is not known (gpu, or none)", a.Graph)
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
	return nil
}

// Param names one parameter and its shape, in PyTorch's convention: a weight is out × in.
type Param struct {
	Name  string
	Shape []int
}

// Params lists the parameters in a fixed order.
func (a Architecture) Params() []Param {
	if a.Graph == GPUGraph {
		return a.gpuParams()
	}
	h := a.Hidden
	mat := func(name string, in int) Param { return Param{name + ".weight", []int{h, in}} }
	vec := func(name string) Param { return Param{name, []int{h}} }
	p := []Param{
		mat("node", graph.NodeDim), vec("node.bias"), vec("norm.weight"), vec("norm.bias"),
		mat("pod", graph.PodDim), vec("pod.bias"),
		mat("cluster.features", graph.ClusterDim), vec("cluster.bias"),
		mat("candidate.features", graph.CandidateDim), mat("candidate.node", h), mat("candidate.cluster", h), mat("candidate.pod", h), vec("candidate.bias"),
		{"score.weight", []int{1, h}},
		mat("value.hidden", 3*h), vec("value.hidden.bias"), {"value.out.weight", []int{1, h}}, {"value.out.bias", []int{1}},
	}
	if a.Encoder == GNN {
		p = append(p,
			mat("group", graph.GroupDim), vec("group.bias"), mat("node.group", h),
			mat("cluster.node", h), mat("cluster.pod", h),
			mat("zone.node", h), mat("zone.cluster", h), vec("zone.bias"), mat("candidate.zone", h),
		)
	}
	return p
}
