package neural

import (
	"fmt"
	"math"
	"slices"

	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/cache"
)

// GPUPolicy scores with a network on the GPU graph: a placement is worth what the network
// thinks of the node as it is less what it thinks of the node as it will be, both in the
// cluster as it is. A share of a device goes to the device with the highest score, the first
// of equals.
//
// Nodes in the same state are one state to it, whose embedding it keeps; between two decisions
// one node changes, so that most of a decision is looking up and adding up.
type GPUPolicy struct {
	name    string
	encoder *encode.GPU
	cluster *encode.GPUCluster
	session *infer.GPUSession
	width   int
	expired func() bool

	ids    map[gpuState]int32
	states []float32 // states × width: embedding of each
	value  []float32 // of each, at decision
	at     []int64   // decision at which value was computed
	now    int64     // decision
	psi    []float32

	placements cache.Cache[placement]
	after      []int32 // states that placements lead to
	node       graph.GPUNode
}

// gpuState is all that the network sees of a node.
type gpuState struct {
	free, allocatable cluster.Resources
	model             string
	rooms             [cluster.MaxDevices]int16 // what is left of the devices, descending
}

// placement is what a pod's placement makes of a node in one of its states.
type placement struct {
	before   int32 // state
	from, to int32 // after[from:to] are the states that it may lead to, in the order of options
}

// maxStates and maxAfter bound what is kept.
const (
	maxStates = 1 << 18
	maxAfter  = 1 << 22
)

// NewGPU returns a policy that runs net for the workload with the given typical pods.
func NewGPU(name string, net *infer.GPUNetwork, typical *fragmentation.Typical) *GPUPolicy {
	l := &GPUPolicy{name: name, encoder: encode.NewGPU(typical), session: net.Actor(), width: net.Width(), psi: make([]float32, net.Width())}
	l.cluster = encode.NewGPUCluster(l.encoder)
	l.forget()
	return l
}

func (l *GPUPolicy) forget() {
	l.ids, l.states, l.value, l.at = map[gpuState]int32{}, l.states[:0], l.value[:0], l.at[:0]
	l.after = l.after[:0]
	l.placements.Clear()
}

// Name implements policy.Policy.
func (l *GPUPolicy) Name() string { return l.name }

// Until makes every later pass give up with infer.ErrDeadline once expired returns true; nil
// means never.
func (l *GPUPolicy) Until(expired func() bool) { l.expired = expired }

// lookEvery is how many candidates are scored between two looks at the deadline.
const lookEvery = 64

// Score implements policy.Policy. The errors are infer.ErrDeadline and infer.ErrNaN; after the
// latter, or a panic, the policy must not be used again.
func (l *GPUPolicy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	l.begin(s)
	column := l.placements.Column(pod.Requests, len(s.Nodes))
	for i, v := range candidates {
		if l.expired != nil && (i+1)%lookEvery == 0 && l.expired() {
			return infer.ErrDeadline
		}
		n, p := s.Nodes[v], &column[v]
		if !p.Valid(n) {
			p.Set(n, l.place(n, pod.Requests))
		}
		scores[i] = l.worth(p.Value.before) - l.least(&p.Value)
		if math.IsNaN(float64(scores[i])) || math.IsInf(float64(scores[i]), 0) {
			return fmt.Errorf("%w: score %v of %s", infer.ErrNaN, scores[i], n.Name)
		}
	}
	return nil
}

// begin looks at the cluster for one decision.
func (l *GPUPolicy) begin(s *cluster.Snapshot) {
	if len(l.ids) > maxStates || len(l.after) > maxAfter {
		l.forget()
	}
	l.now++
	l.session.Cluster(l.psi, l.cluster.Features(s.Nodes))
}

// place finds the states that putting a pod that requests r on n leads to.
func (l *GPUPolicy) place(n *cluster.Node, r cluster.Resources) placement {
	p := placement{before: l.state(n, cluster.Resources{}, 0), from: int32(len(l.after))}
	for rest := options(n, r); rest != 0; rest &= rest - 1 {
		l.after = append(l.after, l.state(n, r, option(n, r, rest)))
	}
	if int32(len(l.after)) == p.from { // somebody else took the room
		l.after = append(l.after, l.state(n, r, n.ChooseDevices(r)))
	}
	p.to = int32(len(l.after))
	return p
}

// least is the lowest worth that the node may have after the placement.
func (l *GPUPolicy) least(p *placement) float32 {
	best := l.worth(l.after[p.from])
	for _, id := range l.after[p.from+1 : p.to] {
		best = min(best, l.worth(id))
	}
	return best
}

// Devices implements DeviceChooser, for the cluster as it was when Score looked at it last. Before
// that it is what cluster.Node.ChooseDevices says.
func (l *GPUPolicy) Devices(n *cluster.Node, pod *cluster.Pod) (on cluster.DeviceSet) {
	if l.now == 0 {
		return n.ChooseDevices(pod.Requests)
	}
	best := float32(math.Inf(1))
	for rest := options(n, pod.Requests); rest != 0; rest &= rest - 1 {
		devices := option(n, pod.Requests, rest)
		if w := l.worth(l.state(n, pod.Requests, devices)); w < best {
			best, on = w, devices
		}
	}
	return on
}

// options are the ways to put a pod on n's devices, bit by bit: for a share the devices that
// differ, for anything else one way.
func options(n *cluster.Node, r cluster.Resources) cluster.DeviceSet {
	if r.GPUMilli > 0 && n.HasDevices() {
		return policy.DistinctDevices(n, r.GPUMilli)
	}
	return 1
}

// option is the devices of the first of the ways.
func option(n *cluster.Node, r cluster.Resources, ways cluster.DeviceSet) cluster.DeviceSet {
	if r.GPUMilli > 0 && n.HasDevices() {
		return policy.FirstDevice(ways)
	}
	return n.ChooseDevices(r)
}

// state is the number of the state in which n is once a pod that asks for r runs on the devices.
func (l *GPUPolicy) state(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) int32 {
	key := gpuState{free: n.Free().Minus(r), allocatable: n.Allocatable, model: n.GPUModel}
	key.free.Pods, key.free.GPU, key.free.GPUMilli = 0, 0, 0 // the devices say it
	_, milli := fragmentation.Devices(r)
	for i, used := range n.GPUs {
		if on.Has(i) {
			used += milli
		}
		room, j := int16(max(cluster.DeviceMilli-used, 0)), i
		for ; j > 0 && key.rooms[j-1] < room; j-- {
			key.rooms[j] = key.rooms[j-1]
		}
		key.rooms[j] = room
	}
	id, known := l.ids[key]
	if !known {
		id = int32(len(l.at))
		l.ids[key] = id
		l.encoder.Node(&l.node, n, r, on)
		l.states = slices.Grow(l.states, l.width)[:len(l.states)+l.width]
		l.session.Node(l.states[int(id)*l.width:][:l.width], &l.node)
		l.value, l.at = append(l.value, 0), append(l.at, 0)
	}
	return id
}

// worth is the network's value of a state in the cluster as it is.
func (l *GPUPolicy) worth(id int32) float32 {
	if l.at[id] != l.now {
		at := int(id) * l.width
		l.value[id], l.at[id] = infer.Dot(l.states[at:at+l.width], l.psi), l.now
	}
	return l.value[id]
}
