package neural

import (
	"slices"

	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/policy"
)

// state is everything that a node's value depends on.
type state struct {
	free, allocatable cluster.Resources
	model             string
	access            fragmentation.Access
	rooms             [cluster.MaxDevices]int16 // thousandths that are left of each device, descending
}

// stateOf returns the state of n after a pod that requests r is placed on the devices, without its access.
func stateOf(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) state {
	s := state{free: n.Free().Minus(r), allocatable: n.Allocatable, model: n.GPUModel}
	s.free.Pods, s.free.GPU, s.free.GPUMilli = 0, 0, 0 // rooms describes the GPUs
	s.rooms = policy.Rooms(n, r, on)
	return s
}

// valuer values the states of nodes, which are numbered from 0.
type valuer interface {
	// narrow clears what the value of a state does not depend on.
	narrow(s *state)
	// begin begins a decision in a cluster with the given features.
	begin(cluster []float32)
	// add takes the state with the next number, of a node that is encoded as g.
	add(s *state, g *graph.GPUNode)
	// value returns the value of a state in the cluster of the decision.
	value(id int32) float32
	// forget drops all states.
	forget()
}

// embeddings values a state by the dot product of a network's embeddings of the state and of the cluster.
type embeddings struct {
	session *infer.NodeSession
	psi     []float32 // of the present cluster
	phi     []float32 // states × len(psi)
}

func (*embeddings) narrow(*state) {}

func (e *embeddings) begin(cluster []float32) { e.session.Cluster(e.psi, cluster) }

func (e *embeddings) add(_ *state, g *graph.GPUNode) {
	from := len(e.phi)
	e.phi = slices.Grow(e.phi, len(e.psi))[:from+len(e.psi)]
	e.session.Node(e.phi[from:], g)
}

func (e *embeddings) value(id int32) float32 {
	at := int(id) * len(e.psi)
	return infer.Dot(e.phi[at:at+len(e.psi)], e.psi)
}

func (e *embeddings) forget() { e.phi = e.phi[:0] }

// worth holds the parts of a state's value that do not come from the valuer, and the value at one decision.
type worth struct {
	held  encode.Held
	watts float32
	value float32 // at the decision, minus what the state is worth to the reserve
	at    int64   // number of the decision; 0: none
}
