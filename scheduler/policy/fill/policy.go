package fill

import (
	"math"
	"slices"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/policy"
)

// Policy scores by what a placement costs. Pods without devices go to nodes without devices if any has room, and another policy chooses
// among these. A share of a device goes to the device where it costs least, the first of tied ones.
//
// The policy keeps every state that a node has been in; nodes in the same state share it. Since only one node changes between two
// decisions, a decision mostly looks up states.
type Policy struct {
	name     string
	encoder  *encode.Stars
	node     graph.GPUNode // scratch
	ordinary policy.Policy // for pods without devices
	filler   *filler
	reserve  *encode.Reserve // prices at the decision
	now      int64           // number of the decision, from 1

	states     states
	placements cluster.Cache[placement]
	after      []int32 // states after placements
	rows       []int32 // of the candidates without devices
	scores     []float32
	scored     []float32 // of all candidates of the last Score
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

// New returns a policy for a workload with the given typical pods, which are nil if they are not known. Where no node has devices it is the
// policy for ordinary pods.
func New(name string, typical *fragmentation.Typical, ordinary policy.Policy) *Policy {
	p := &Policy{name: name, encoder: encode.NewStars(feature.DefaultGPU(), typical), ordinary: ordinary, filler: newFiller(typical)}
	p.forget()
	return p
}

// forget drops all states.
func (p *Policy) forget() {
	p.states.clear()
	p.after = p.after[:0]
	p.placements.Clear()
}

// Name implements policy.Policy.
func (p *Policy) Name() string { return p.name }

// Score implements policy.Policy.
func (p *Policy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	p.begin(s)
	column := p.placements.Column(pod.Requests, len(s.Nodes))
	ordinary, idle := false, p.encoder.IdleShare()
	packing := float32(packing * idle * idle)
	for i, v := range candidates {
		n, e := s.Nodes[v], &column[v]
		if !hasDevices(n) {
			scores[i], ordinary = 0, true
			continue
		}
		if !e.Valid(n) {
			e.Set(n, p.place(n, pod.Requests))
		}
		left := float32(n.IdleGPUMilli()-pod.Requests.TotalGPUMilli()) / cluster.DeviceMilli
		scores[i] = p.value(e.Value.before) - p.lowestAfter(&e.Value) - packing*left
	}
	if p.rows = p.rows[:0]; ordinary && pod.Requests.TotalGPUMilli() == 0 {
		if err := p.scoreOrdinary(s, pod, candidates, scores); err != nil {
			return err
		}
	}
	p.scored = append(p.scored[:0], scores...)
	return nil
}

// packing is what an idle device on the chosen node costs, in devices, times the square of the idle share of all. It keeps empty nodes for
// pods with many devices while most devices are idle.
const packing = 0.025

// above is by how much a node without devices is better for an ordinary pod than any with devices.
const above = 100

// scoreOrdinary lets another policy choose among the nodes without devices for a pod that requests none.
func (p *Policy) scoreOrdinary(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	for _, v := range candidates {
		if !hasDevices(s.Nodes[v]) {
			p.rows = append(p.rows, v)
		}
	}
	p.scores = slices.Grow(p.scores[:0], len(p.rows))[:len(p.rows)]
	if err := p.ordinary.Score(s, pod, p.rows, p.scores); err != nil {
		return err
	}
	at, low := 0, slices.Min(p.scores)-above
	for i, v := range candidates {
		if at < len(p.rows) && p.rows[at] == v {
			scores[i] = p.scores[at]
			at++
		} else {
			scores[i] += low
		}
	}
	return nil
}

func hasDevices(n *cluster.Node) bool { return n.Allocatable.GPU > 0 || len(n.GPUs) > 0 }

// begin prices the cluster for a new decision.
func (p *Policy) begin(s *cluster.Snapshot) {
	if len(p.states.ids) > maxStates || len(p.after) > maxAfter {
		p.forget()
	}
	p.now++
	p.encoder.Features(s.Nodes)
	p.reserve = p.encoder.Reserve()
}

// place finds the states of n before and after the placement of a pod that requests r.
func (p *Policy) place(n *cluster.Node, r cluster.Resources) placement {
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
func (p *Policy) lowestAfter(x *placement) float32 {
	best := p.value(p.after[x.from])
	for _, id := range p.after[x.from+1 : x.to] {
		best = min(best, p.value(id))
	}
	return best
}

// Reading implements policy.Reader.
func (p *Policy) Reading(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, i int) *policy.Reading {
	if reader, reads := p.ordinary.(policy.Reader); reads && !hasDevices(s.Nodes[candidates[i]]) {
		if at := slices.Index(p.rows, candidates[i]); at >= 0 {
			return reader.Reading(s, pod, p.rows, at)
		}
	}
	e := &p.placements.Column(pod.Requests, len(s.Nodes))[candidates[i]]
	if !e.Valid(s.Nodes[candidates[i]]) {
		return nil
	}
	after := p.lowestAfter(&e.Value)
	return &policy.Reading{Kind: policy.ValueReading, Features: policy.Numbers{p.scored[i] + after, after}}
}

// Devices implements policy.DeviceChooser, for the cluster of the last call of Score. Before the
// first call it returns what cluster.Node.ChooseDevices returns.
func (p *Policy) Devices(n *cluster.Node, pod *cluster.Pod) (on cluster.DeviceSet) {
	if p.now == 0 {
		return n.ChooseDevices(pod.Requests)
	}
	best := float32(math.Inf(1))
	for rest := policy.Ways(n, pod.Requests); rest != 0; rest &= rest - 1 {
		devices := policy.FirstWay(n, pod.Requests, rest)
		if v := p.value(p.state(n, pod.Requests, devices)); v < best {
			best, on = v, devices
		}
	}
	return on
}

// state returns the number of the state of n after a pod that requests r is placed on the devices.
func (p *Policy) state(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) int32 {
	x := stateOf(n, r, on)
	x.access = p.encoder.Access(n)
	return p.states.find(x, func() worth {
		p.encoder.Node(&p.node, n, r, on)
		return worth{idle: p.filler.idle(&x), held: p.encoder.Held()}
	})
}

// value returns the value of a state within the present cluster.
func (p *Policy) value(id int32) float32 { return p.states.value(id, p.now, p.reserve) }
