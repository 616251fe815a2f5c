package neural

import (
	"fmt"
	"math"
	"slices"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/policy"
)

// GPUPolicy scores by values of GPU nodes, which are costs: those of a network on the graph of GPU nodes, or the devices that stay idle
// (NewFill). The score of a placement is the value of the node before it minus its value after it, both within the present cluster, and
// minus what the node is worth to the reserve for pods that only some nodes can serve. A share of a device goes to the device
// with the highest score, the first of tied ones.
//
// The policy keeps every state that a node has been in; nodes in the same state share it. Since only one node changes between two
// decisions, a decision mostly looks up states. For a network it then adds up dot products.
type GPUPolicy struct {
	name    string
	encoder *encode.Stars
	values  valuer
	reserve *encode.Reserve // prices at the decision
	node    graph.GPUNode   // scratch
	perWatt float64         // price of a watt, in devices, if all devices are idle; 0: power does not count
	watt    float32         // price of a watt at the decision
	expired func() bool     // whether the decision's deadline has passed; nil: there is none
	now     int64           // number of the decision, from 1

	powerFirst bool      // power decides, and the network breaks ties
	exact      []float64 // scores of the candidates then

	ids        map[state]int32
	states     []worth
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
	return newValued(name, net.Layout(), typical, &embeddings{session: net.Actor(), psi: make([]float32, net.Width())})
}

// NewFill returns a policy that values a node by the devices that are idle once pods of the workload, in random order, have filled it. The
// typical pods are nil if they are not known.
func NewFill(name string, typical *fragmentation.Typical) *GPUPolicy {
	return newValued(name, feature.DefaultGPU(), typical, newFiller(typical))
}

func newValued(name string, layout *feature.Layout, typical *fragmentation.Typical, values valuer) *GPUPolicy {
	p := &GPUPolicy{name: name, encoder: encode.NewStars(layout, typical), values: values}
	p.forget()
	return p
}

// forget drops all states.
func (p *GPUPolicy) forget() {
	p.values.forget()
	p.ids, p.states, p.after = map[state]int32{}, p.states[:0], p.after[:0]
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

// IdleShare returns the idle fraction of the devices of the cluster in the last Score, 0 to 1.
func (p *GPUPolicy) IdleShare() float64 { return p.encoder.IdleShare() }

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

// begin prices the cluster for a new decision.
func (p *GPUPolicy) begin(s *cluster.Snapshot) {
	if len(p.states) > maxStates || len(p.after) > maxAfter {
		p.forget()
	}
	p.now++
	p.values.begin(p.encoder.Features(s.Nodes))
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
	r := &policy.Reading{Kind: policy.ValueReading,
		Features: policy.Numbers{float32(p.value(e.Value.before)), float32(p.lowestAfter(&e.Value))}}
	if network, is := p.values.(*embeddings); is {
		on := n.ChooseDevices(pod.Requests)
		if policy.Ways(n, pod.Requests) != 0 {
			on = p.Devices(n, pod)
		}
		before, after := p.encoder.Vertex(n, cluster.Resources{}, 0), p.encoder.Vertex(n, pod.Requests, on)
		r.Features = append(r.Features, infer.StepReading(&before, &after, network.psi)...)
	}
	return r
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
func (p *GPUPolicy) state(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) int32 {
	s := stateOf(n, r, on)
	s.access = p.encoder.Access(n)
	p.values.narrow(&s)
	id, known := p.ids[s]
	if !known {
		id = int32(len(p.states))
		p.ids[s] = id
		p.encoder.Node(&p.node, n, r, on)
		p.values.add(&s, &p.node)
		p.states = append(p.states, worth{held: p.encoder.Held(), watts: float32(cluster.WattsAfter(n, r, on))})
	}
	return id
}

// value returns the value of a state within the present cluster, minus what it is worth to the reserve, and what its power costs.
func (p *GPUPolicy) value(id int32) float64 {
	s := &p.states[id]
	if s.at != p.now {
		s.value, s.at = p.values.value(id)-float32(p.reserve.Worth(&s.held)), p.now
	}
	if p.powerFirst {
		return float64(s.value) + powerFirstWatt*float64(s.watts)
	}
	return float64(s.value + p.watt*s.watts)
}

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
