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
)

// GPUPolicy scores with a network on the graph of GPU nodes. The score of a placement is the
// value of the node before it minus its value after it, both within the present cluster: the network's
// value, minus what the node is worth to the reserve for pods that only some nodes can serve. A share of a device goes to the device
// with the highest score, the first of tied ones.
//
// The policy keeps the embedding of every state that a node has been in; nodes in the same state
// share it. Since only one node changes between two decisions, a decision mostly looks up
// embeddings and adds up dot products.
type GPUPolicy struct {
	name    string
	encoder *encode.Stars
	session *infer.NodeSession
	reserve *encode.Reserve // prices at the decision
	psi     []float32       // the network's embedding of the present cluster
	node    graph.GPUNode
	perWatt float64     // price of a watt, in devices, if all devices are idle; 0: power does not count
	watt    float32     // price of a watt at the decision
	expired func() bool // whether the decision's deadline has passed; nil: there is none
	now     int64       // number of the decision, from 1

	powerFirst bool      // power decides, and the network breaks ties
	exact      []float64 // scores of the candidates then

	states     gpuStates
	placements cluster.Cache[placement]
	after      []int32 // states after placements
}

// placement holds the states of a node before and after a pod's placement.
type placement struct {
	before   int32
	from, to int32 // after[from:to] holds the possible states afterwards, in the order of ways
}

// maxStates and maxAfter bound the memory.
const (
	maxStates = 1 << 18
	maxAfter  = 1 << 22
)

func newGPU(name string, net *infer.Network, typical *fragmentation.Typical) *GPUPolicy {
	p := &GPUPolicy{
		name: name, encoder: encode.NewStars(net.Layout(), typical), session: net.Actor(), psi: make([]float32, net.Width()),
	}
	p.states.width = net.Width()
	p.forget()
	return p
}

// forget drops all states.
func (p *GPUPolicy) forget() {
	p.states.clear()
	p.after = p.after[:0]
	p.placements.Clear()
}

// SavePower makes power cost the given number of devices for each kilowatt that a placement adds, by the model
// of package power, times the idle share of the cluster's devices. A device that is switched on late draws
// power for a short time only, and once all are in use no choice saves any. From powerFirstWeight on, the least additional power
// decides, and the network breaks ties.
func (p *GPUPolicy) SavePower(weight float64) *GPUPolicy {
	p.perWatt, p.powerFirst = weight/1000, weight >= powerFirstWeight
	return p
}

// powerFirstWeight is the weight from which on the least additional power decides, however much is idle.
const powerFirstWeight = 1e6

// powerFirstWatt is the price of a watt then, in devices: more than scores of a network differ by.
const powerFirstWatt = 1e6

// powerTie is the unit to which the network's scores are rounded then, in devices, if all devices are idle. The first of tied nodes
// is taken, so that fewer nodes are awake. On the openb list default, 0.03 drew 853.5 kW, 0.1 854.0, 0.3
// 854.8, and scores that were not rounded 854.6.
const powerTie = 0.03

// Name implements policy.Policy.
func (p *GPUPolicy) Name() string { return p.name }

// Until implements Policy.
func (p *GPUPolicy) Until(expired func() bool) { p.expired = expired }

// checkEvery is the number of candidates that are scored between two checks of the deadline.
const checkEvery = 64

// Score implements policy.Policy.
func (p *GPUPolicy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	p.begin(s)
	column := p.placements.Column(pod.Requests, len(s.Nodes))
	for i, v := range candidates {
		if p.expired != nil && (i+1)%checkEvery == 0 && p.expired() {
			return infer.ErrDeadline
		}
		n, e := s.Nodes[v], &column[v]
		if !e.Valid(n) {
			e.Set(n, p.place(n, pod.Requests))
		}
		won := p.value(e.Value.before) - p.lowestAfter(&e.Value)
		if math.IsNaN(won) || math.IsInf(won, 0) {
			return fmt.Errorf("%w: score %v of %s", infer.ErrNaN, won, n.Name)
		}
		if scores[i] = float32(won); p.powerFirst {
			p.exact = append(p.exact[:i], won)
		}
	}
	if p.powerFirst && len(candidates) > 0 {
		p.rank(scores)
	}
	return nil
}

// rank writes scores by the exact ones, rounded. They are relative to the highest: a float32 that holds the price of watts as well holds
// no differences of the network.
func (p *GPUPolicy) rank(scores []float32) {
	unit := max(powerTie*p.encoder.IdleShare(), 1e-6)
	for i, v := range p.exact {
		p.exact[i] = math.Round(v/unit) * unit
	}
	most := slices.Max(p.exact)
	for i, v := range p.exact {
		scores[i] = float32(v - most)
	}
}

// begin embeds the cluster for a new decision.
func (p *GPUPolicy) begin(s *cluster.Snapshot) {
	if p.states.len() > maxStates || len(p.after) > maxAfter {
		p.forget()
	}
	p.now++
	p.session.Cluster(p.psi, p.encoder.Features(s.Nodes))
	p.reserve = p.encoder.Reserve()
	p.watt = float32(p.perWatt * p.encoder.IdleShare())
}

// place finds the states of n before and after the placement of a pod that requests r.
func (p *GPUPolicy) place(n *cluster.Node, r cluster.Resources) placement {
	x := placement{before: p.state(n, cluster.Resources{}, 0), from: int32(len(p.after))}
	for rest := policy.Ways(n, r); rest != 0; rest &= rest - 1 {
		p.after = append(p.after, p.state(n, r, policy.FirstWay(n, r, rest)))
	}
	if int32(len(p.after)) == x.from { // another pod took the room
		p.after = append(p.after, p.state(n, r, n.ChooseDevices(r)))
	}
	x.to = int32(len(p.after))
	return x
}

// lowestAfter returns the lowest value that the node may have after the placement.
func (p *GPUPolicy) lowestAfter(x *placement) float64 {
	best := p.value(p.after[x.from])
	for _, id := range p.after[x.from+1 : x.to] {
		best = min(best, p.value(id))
	}
	return best
}

// Reading implements policy.Reader.
func (p *GPUPolicy) Reading(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, i int) *policy.Reading {
	n := s.Nodes[candidates[i]]
	e := &p.placements.Column(pod.Requests, len(s.Nodes))[candidates[i]]
	if !e.Valid(n) {
		return nil
	}
	on := n.ChooseDevices(pod.Requests)
	if policy.Ways(n, pod.Requests) != 0 {
		on = p.Devices(n, pod)
	}
	before, after := p.encoder.Vertex(n, cluster.Resources{}, 0), p.encoder.Vertex(n, pod.Requests, on)
	return &policy.Reading{Kind: policy.ValueReading, Features: append([]float32{float32(p.value(e.Value.before)),
		float32(p.lowestAfter(&e.Value))}, infer.StepReading(&before, &after, p.psi)...)}
}

// Devices implements policy.DeviceChooser, for the cluster of the last call of Score. Before the
// first call it returns what cluster.Node.ChooseDevices returns.
func (p *GPUPolicy) Devices(n *cluster.Node, pod *cluster.Pod) (on cluster.DeviceSet) {
	if p.now == 0 {
		return n.ChooseDevices(pod.Requests)
	}
	best := math.Inf(1)
	for rest := policy.Ways(n, pod.Requests); rest != 0; rest &= rest - 1 {
		devices := policy.FirstWay(n, pod.Requests, rest)
		if v := p.value(p.state(n, pod.Requests, devices)); v < best {
			best, on = v, devices
		}
	}
	return on
}

// state returns the number of the state of n after a pod that requests r is placed on the devices.
// It embeds a state that is new.
func (p *GPUPolicy) state(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) int32 {
	state := stateOf(n, r, on)
	state.access = p.encoder.Access(n)
	id, embedding := p.states.find(state)
	if embedding != nil {
		p.encoder.Node(&p.node, n, r, on)
		p.session.Node(embedding, &p.node)
		p.states.held[id] = p.encoder.Held()
		p.states.watts[id] = float32(cluster.WattsAfter(n, r, on))
	}
	return id
}

// value returns the network's value of a state within the present cluster, and what its power costs.
func (p *GPUPolicy) value(id int32) float64 {
	v := p.states.value(id, p.now, p.psi, p.reserve)
	if p.powerFirst {
		return float64(v) + powerFirstWatt*float64(p.states.watts[id])
	}
	return float64(v + p.watt*p.states.watts[id])
}

// gpuState is everything that the network sees of a node.
type gpuState struct {
	free, allocatable cluster.Resources
	model             string
	access            fragmentation.Access
	rooms             [cluster.MaxDevices]int16 // thousandths that are left of each device, descending
}

// stateOf returns the state of n after a pod that requests r is placed on the devices, without its access.
func stateOf(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) gpuState {
	s := gpuState{free: n.Free().Minus(r), allocatable: n.Allocatable, model: n.GPUModel}
	s.free.Pods, s.free.GPU, s.free.GPUMilli = 0, 0, 0 // rooms describes the GPUs
	s.rooms = policy.Rooms(n, r, on)
	return s
}

// gpuStates numbers states, keeps their embeddings, and keeps their values for one decision.
type gpuStates struct {
	width      int
	ids        map[gpuState]int32
	embeddings []float32     // states × width
	held       []encode.Held // by state
	watts      []float32     // by state
	values     []float32     // by state, at the decision in computed
	computed   []int64       // by state; 0: never
}

func (s *gpuStates) clear() {
	s.ids = map[gpuState]int32{}
	s.embeddings = s.embeddings[:0]
	s.held = s.held[:0]
	s.watts = s.watts[:0]
	s.values = s.values[:0]
	s.computed = s.computed[:0]
}

func (s *gpuStates) len() int { return len(s.ids) }

// find returns the number of a state. For a new state it also returns the row of embeddings that
// the caller must fill, which is nil for a known state.
func (s *gpuStates) find(state gpuState) (id int32, embedding []float32) {
	id, known := s.ids[state]
	if known {
		return id, nil
	}
	id = int32(len(s.computed))
	s.ids[state] = id
	s.embeddings = slices.Grow(s.embeddings, s.width)[:len(s.embeddings)+s.width]
	s.held, s.watts = append(s.held, encode.Held{}), append(s.watts, 0)
	s.values, s.computed = append(s.values, 0), append(s.computed, 0)
	return id, s.embeddings[int(id)*s.width:][:s.width]
}

// value returns the dot product of a state's embedding and psi, the embedding of the cluster at
// decision now, minus what the state is worth to the decision's reserve.
func (s *gpuStates) value(id int32, now int64, psi []float32, reserve *encode.Reserve) float32 {
	if s.computed[id] != now {
		at := int(id) * s.width
		s.values[id] = infer.Dot(s.embeddings[at:at+s.width], psi) - float32(reserve.Worth(&s.held[id]))
		s.computed[id] = now
	}
	return s.values[id]
}
