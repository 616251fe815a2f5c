// Package supply keeps how many more pods of each kind fit on the nodes of a cluster.
package supply

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
)

// Table holds the places of kinds of pods: how many more pods of a kind fit on a node. Sync brings it up to date with what has changed. The
// zero value is empty.
type Table struct {
	Kinds  []*cluster.Kind
	Totals []Total // by kind
	Nodes  float64 // nodes on which pods of some kind may run
	Sums

	epoch cluster.Version
	rows  []row  // by row of the snapshot
	parts []part // by kind
	taken []*taken
	asked uint64 // calls of Cost
}

// taken is how many places pods of one size take from each kind on each node.
type taken struct {
	by       cluster.Resources
	versions []cluster.Version // by row, of the node as it was looked at
	places   []float64         // by row and kind
	last     uint64            // the call of Cost that asked last
}

// mostTaken bounds the numbers of all sizes together: 32 MiB.
const mostTaken = 4 << 20

// Sums are totals over the nodes. Requested and Available leave out nodes that admit only pods with tolerations.
type Sums struct {
	Capacity  cluster.Resources // as objective.Capacity
	Requested cluster.Resources
	Available int64 // number of nodes
}

// Total is a kind's places and nodes in the whole cluster.
type Total struct {
	Free   float64 // places for further pods
	Places float64 // places if no pod ran
	Nodes  float64 // nodes on which pods of the kind may run
}

// row is the places on a node.
type row struct {
	version cluster.Version
	sums    Sums      // of this node
	allows  uint64    // a bit for each kind of which pods may run there
	free    []int32   // by kind
	places  []int32   // by kind: if no pod ran
	partly  []float64 // by kind: as free, with parts of places
}

// part is how many places each unit of a resource is for pods of a kind, and, of what they do not request, how many there are anyway.
type part struct {
	cpu, memory, gpu  float64
	anyCPU, anyMemory float64
	devices           bool // whether they request some
}

func partOf(r *cluster.Resources) (p part) {
	of := func(x int64) (each, anyway float64) {
		if x <= 0 {
			return 0, 1 << 20
		}
		return 1 / float64(x), 0
	}
	p.cpu, p.anyCPU = of(r.MilliCPU)
	p.memory, p.anyMemory = of(r.Memory)
	p.gpu, _ = of(r.GPU)
	p.devices = r.TotalGPUMilli() > 0
	return p
}

// left is what is left of a node's room.
type left struct{ cpu, memory, pods float64 }

func leftOf(r cluster.Resources) left {
	return left{float64(r.MilliCPU), float64(r.Memory), float64(r.Pods)}
}

// of returns how many places there are for pods of a kind where so much is left: whole ones, and the eighth power of the part of one.
// So a node that lacks little of a place is spared, and one that lacks much is as good as one that has none of it.
func (p *part) of(l *left) float64 { return sharpened(p.room(l)) }

// room returns how many pods the rest of a node has room for, their devices aside.
func (p *part) room(l *left) float64 {
	return min(l.pods, l.cpu*p.cpu+p.anyCPU, l.memory*p.memory+p.anyMemory)
}

// on is of for pods that request devices, on the node with what is left. Where they request shares, only whole places count.
func (p *part) on(n *cluster.Node, asks *cluster.Resources, l *left) float64 {
	if asks.GPUMilli > 0 {
		const rounding = 1e-9
		return min(float64(n.Places(asks)), math.Floor(p.room(l)+rounding))
	}
	idle := n.Free().GPU
	if n.GPUs != nil {
		idle = n.IdleDevices()
	}
	return sharpened(min(p.room(l), float64(idle)*p.gpu))
}

func sharpened(places float64) float64 {
	whole := float64(int64(max(places, 0)))
	part := places - whole
	part *= part
	part *= part
	return whole + part*part
}

// partly returns the places of kind k on a node on which so much is left.
func (t *Table) partly(k int, n *cluster.Node, l *left) float64 {
	if p := &t.parts[k]; p.devices {
		return p.on(n, &t.Kinds[k].Pod.Requests, l)
	}
	return t.parts[k].of(l)
}

// Sync brings the table up to date with a snapshot that has a Demand.
func (t *Table) Sync(s *cluster.Snapshot) {
	d := s.Demand
	if t.epoch != d.Epoch {
		*t = Table{Totals: make([]Total, len(d.Kinds)), epoch: d.Epoch}
		for _, kind := range d.Kinds {
			t.parts = append(t.parts, partOf(&kind.Pod.Requests))
		}
	}
	t.Kinds = d.Kinds
	t.resize(len(s.Nodes))
	for i, n := range s.Nodes {
		if r := &t.rows[i]; !n.Unchanged(r.version) {
			t.add(r, -1)
			r.look(n, t)
			t.add(r, 1)
		}
	}
}

// resize makes the table one of so many nodes.
func (t *Table) resize(n int) {
	for ; len(t.rows) > n; t.rows = t.rows[:len(t.rows)-1] {
		t.add(&t.rows[len(t.rows)-1], -1)
	}
	k, more := len(t.Kinds), n-len(t.rows)
	if more > 0 && len(t.taken) > t.mostSizes(n) {
		t.taken = nil
	}
	places, partly := make([]int32, 2*k*more), make([]float64, k*more)
	for i := range more {
		t.rows = append(t.rows, row{free: places[2*k*i : 2*k*i+k], places: places[2*k*i+k : 2*k*(i+1)], partly: partly[k*i : k*i+k]})
	}
}

// add adds the places of a row to the totals, or subtracts them.
func (t *Table) add(r *row, sign float64) {
	t.Capacity = t.Capacity.Plus(r.sums.Capacity.Times(int64(sign)))
	t.Requested = t.Requested.Plus(r.sums.Requested.Times(int64(sign)))
	t.Available += int64(sign) * r.sums.Available
	if r.allows != 0 {
		t.Nodes += sign
	}
	for k := range r.kinds {
		t.Totals[k].Free += sign * float64(r.free[k])
		t.Totals[k].Places += sign * float64(r.places[k])
		t.Totals[k].Nodes += sign
	}
}

// look counts the places of a node.
func (r *row) look(n *cluster.Node, t *Table) {
	r.version, r.allows, r.sums = n.Version, 0, Sums{Capacity: n.Offers()}
	if n.Available() {
		r.sums.Requested, r.sums.Available = n.Requested, 1
	}
	l := leftOf(n.Free())
	for k, kind := range t.Kinds {
		if n.Allows(&kind.Pod) == cluster.Fits && kind.Pod.Requests.Within(n.Allocatable) {
			r.allows |= 1 << k
			r.free[k] = int32(n.Places(&kind.Pod.Requests))
			r.partly[k] = t.partly(k, n, &l)
			r.places[k] = int32(min(kind.Pod.Requests.FitsInto(n.Allocatable), n.Allocatable.Pods))
		}
	}
}

// kinds yields the kinds of which pods may run on the node.
func (r *row) kinds(yield func(int) bool) {
	for m := r.allows; m != 0; m &= m - 1 {
		if !yield(bits.TrailingZeros64(m)) {
			return
		}
	}
}

// Prices are two prices for each kind: Whole for each place that the kind loses, and Part for the room of a place that a pod takes, on
// whichever of the nodes for the same kinds it runs.
type Prices struct{ Whole, Part []float64 }

// Cost writes to cost what a pod that requests r would cost on the node of each row: the sum over the kinds of what it takes from them.
func (t *Table) Cost(s *cluster.Snapshot, rows []int32, r *cluster.Resources, at Prices, cost []float64) {
	by, kinds := t.takenBy(r), len(t.Kinds)
	rooms, room, last := map[uint64]float64{}, 0.0, uint64(0) // by the kinds that a node allows
	for i, v := range rows {
		row := &t.rows[v]
		if row.allows != last {
			var known bool
			if room, known = rooms[row.allows]; !known {
				for k := range row.kinds {
					room += at.Part[k] * roomOf(&t.Kinds[k].Pod.Requests, r)
				}
				rooms[row.allows] = room
			}
			last = row.allows
		}
		places := by.places[int(v)*kinds : int(v)*kinds+kinds]
		if n := s.Nodes[v]; !n.Unchanged(by.versions[v]) {
			by.versions[v] = n.Version
			t.take(n, row, r, places)
		}
		sum := room
		for k, p := range places {
			sum += at.Whole[k] * p
		}
		cost[i] = sum
	}
}

// takenBy returns what pods that request r take, of the nodes as they were when they were asked for last. The size that was not asked for
// longest is forgotten, if there are too many.
func (t *Table) takenBy(r *cluster.Resources) *taken {
	t.asked++
	oldest := 0
	for i, x := range t.taken {
		if x.by == *r {
			x.last = t.asked
			return t.wide(x)
		}
		if x.last < t.taken[oldest].last {
			oldest = i
		}
	}
	if len(t.taken) == 0 || len(t.taken) < t.mostSizes(len(t.rows)) {
		t.taken = append(t.taken, &taken{})
		oldest = len(t.taken) - 1
	}
	x := t.taken[oldest]
	x.by, x.last = *r, t.asked
	clear(x.versions)
	return t.wide(x)
}

// mostSizes returns how many sizes are kept with so many nodes.
func (t *Table) mostSizes(nodes int) int {
	return min(mostTaken/max(nodes*len(t.Kinds), 1), 2*len(t.Kinds))
}

// wide makes room for all rows.
func (t *Table) wide(x *taken) *taken {
	if more := len(t.rows) - len(x.versions); more > 0 {
		x.versions, x.places = append(x.versions, make([]cluster.Version, more)...), append(x.places, make([]float64, more*len(t.Kinds))...)
	}
	return x
}

// take writes how many places, with parts of places, a pod that requests r takes from each kind on a node.
func (t *Table) take(n *cluster.Node, row *row, r *cluster.Resources, places []float64) {
	clear(places)
	after := n
	if r.TotalGPUMilli() > 0 {
		with := n.With(*r)
		after = &with
	}
	l := left{float64(n.Allocatable.MilliCPU - n.Requested.MilliCPU - r.MilliCPU),
		float64(n.Allocatable.Memory - n.Requested.Memory - r.Memory), float64(n.Allocatable.Pods - n.Requested.Pods - 1)}
	for k := range row.kinds {
		places[k] = max(row.partly[k]-t.partly(k, after, &l), 0)
	}
}

// Takes returns how many places on the node of row v, with parts of places, each kind loses to a pod that requests r.
func (t *Table) Takes(s *cluster.Snapshot, v int32, r cluster.Resources) []float64 {
	out := make([]float64, len(t.Kinds))
	t.take(s.Nodes[v], &t.rows[v], &r, out)
	return out
}

// roomOf returns how many pods that request asks a pod that requests r takes the room of, by the resource of which it takes most.
func roomOf(asks, r *cluster.Resources) (most float64) {
	for _, x := range [...][2]int64{{r.MilliCPU, asks.MilliCPU}, {r.Memory, asks.Memory}, {r.TotalGPUMilli(), asks.TotalGPUMilli()}} {
		if x[1] > 0 {
			most = max(most, float64(x[0])/float64(x[1]))
		}
	}
	return most
}

// Special returns the number of kinds of which pods may run on the node of row v, and not on every node on which some kind may.
func (t *Table) Special(v int32) (kinds int) {
	for k := range t.rows[v].kinds {
		if t.Totals[k].Nodes < t.Nodes {
			kinds++
		}
	}
	return kinds
}

// Pricer says what a place for pods of each kind of a table is worth: 0 or more, about by how many percent of the cluster more would wait
// without it. The prices are valid until the next call.
type Pricer interface {
	Prices(s *cluster.Snapshot, t *Table) ([]float64, error)
}

// Policy scores by what a placement takes from the kinds of pods that arrive, and as linear where that is next to nothing, so that nodes
// are loaded evenly while all have room. A placement costs the price of a kind for each place that it takes from the kind, and a part of
// the price for the room that it takes, in places of the kind, although no whole place is lost: such room becomes a place when other pods
// leave. The fewer nodes a kind has, the larger the part. Where nobody counts pods (cluster.Demand), the policy is linear.
type Policy struct {
	name   string
	linear *linear.Policy
	pricer Pricer
	supply Table
	prices Prices
	costs  []float64 // of the candidates
	even   float64   // of placements that differ by less, linear decides; in percent of a node
	small  float64   // the same, in percent of the cluster
	priced bool      // whether the last decision had costs
}

const (
	partWeight  = 0.37  // of room that is no whole place, if the kind may run on all nodes
	priceWeight = 24    // of the cost's logarithm, in scores of linear
	usualEven   = 0.015 // Policy.even without SetBalance
)

// New returns a policy with a name.
func New(name string, p Pricer) *Policy {
	return &Policy{name: name, linear: linear.Tuned("linear"), pricer: p, even: usualEven}
}

// SetBalance weighs evenly loaded nodes against waiting pods: of placements whose costs differ by less than so many percent of a node,
// linear decides. It is over 0; without a call 0.015.
func (p *Policy) SetBalance(percent float64) { p.even = percent }

// Name implements policy.Policy.
func (p *Policy) Name() string { return p.name }

// Score implements policy.Policy.
func (p *Policy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	p.priced = s.Demand != nil
	if err := p.linear.Score(s, pod, candidates, scores); err != nil || !p.priced {
		return err
	}
	p.supply.Sync(s)
	if err := p.setPrices(s); err != nil {
		return err
	}
	p.costs = slices.Grow(p.costs[:0], len(candidates))[:len(candidates)]
	p.supply.Cost(s, candidates, &pod.Requests, p.prices, p.costs)
	p.small = p.even / max(p.supply.Nodes, 1)
	for i, cost := range p.costs {
		scores[i] -= float32(priceWeight * math.Log(cost+p.small))
	}
	return nil
}

func (p *Policy) setPrices(s *cluster.Snapshot) (err error) {
	if p.prices.Whole, err = p.pricer.Prices(s, &p.supply); err != nil {
		return err
	}
	p.prices.Part = p.prices.Part[:0]
	for k, price := range p.prices.Whole {
		p.prices.Part = append(p.prices.Part, price*partWeight*math.Sqrt(p.supply.Nodes/max(p.supply.Totals[k].Nodes, 1)))
	}
	return nil
}

// mostKept is the largest number of kinds in a reading.
const mostKept = 3

// Reading implements policy.Reader.
func (p *Policy) Reading(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, i int) *policy.Reading {
	r := p.linear.Reading(s, pod, candidates, i)
	if r == nil || !p.priced {
		return r
	}
	r.Features, r.Weights = append(r.Features, float32(math.Log(p.costs[i]+p.small))), append(r.Weights, -priceWeight)
	arrived := each.Sum(p.supply.Kinds, func(k *cluster.Kind) float64 { return k.Arrived })
	takes := p.supply.Takes(s, candidates[i], pod.Requests)
	var order []int
	for k, n := range takes {
		if n > 0 {
			order = append(order, k)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(takes[b]*p.prices.Whole[b], takes[a]*p.prices.Whole[a]) })
	for _, k := range order[:min(len(order), mostKept)] {
		kind := p.supply.Kinds[k]
		r.KeptFor = append(r.KeptFor, policy.KeptFor{
			Kind: kind.Text(), Share: kind.Arrived / max(arrived, 1), Room: p.supply.Totals[k].Free, Takes: takes[k],
		})
	}
	return r
}
