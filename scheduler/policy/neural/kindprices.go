package neural

import (
	"fmt"
	"math"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/supply"
)

// kindPrices is the prices of places by a network on the graph of kinds. With the head actor-critic the actor's output is the logarithm
// of PriceScale times the price. With the head dqn the output is the logarithm of what a kind's pods will wait for, and the price is by how
// much that rises if one more place is lost. A network that hears nothing of places takes all that they will wait for, divided by
// manyPlaces. It is not safe for concurrent use.
type kindPrices struct {
	stars   *KindStars
	slope   bool    // whether the price is the difference of two values: with one place less, and without
	unit    float64 // of a price, in percent of the cluster
	session *infer.NodeSession
	star    graph.GPUNode
	phi     []float32
	psi     []float32
	prices  []float64
	expired func() bool // whether the decision's deadline has passed; nil: there is none
}

// newKindPrices returns the prices of a network on the graph of kinds.
func newKindPrices(net *infer.Network) *kindPrices {
	a := net.Architecture()
	p := &kindPrices{
		stars: NewKindStars(net.Layout(), a.Encoder == checkpoint.GNN), slope: a.Encoder == checkpoint.GNN && a.Head == checkpoint.DQN,
		unit: 1, session: net.Actor(), phi: make([]float32, net.Width()), psi: make([]float32, net.Width()),
	}
	if a.Head != checkpoint.DQN {
		p.unit /= PriceScale
	}
	if a.Encoder != checkpoint.GNN {
		p.unit /= manyPlaces
	}
	return p
}

// PriceScale makes the prices that an actor learns, in percent of the cluster, numbers around 1.
const PriceScale = 100

// manyPlaces is how many places share what a kind's pods will wait for, where a network does not know how many there are.
const manyPlaces = 100

// KindOffset is added to what pods of a kind wait for, in percent of the cluster, before its logarithm becomes a network's target.
const KindOffset = 0.01

// most is the largest logarithm that is believed: more than pods can wait for.
const most = 20

// leastPrice keeps prices above 0, where more room would make a kind wait longer.
const leastPrice = 1e-9

// Prices implements supply.Pricer.
func (p *kindPrices) Prices(s *cluster.Snapshot, t *supply.Table) ([]float64, error) {
	p.stars.Look(t)
	return p.now()
}

// now returns the prices of the kinds that the stars encode.
func (p *kindPrices) now() ([]float64, error) {
	p.session.Cluster(p.psi, p.stars.Cluster())
	p.prices = slices.Grow(p.prices[:0], len(p.stars.kinds))[:len(p.stars.kinds)]
	for k := range p.prices {
		if p.expired != nil && p.expired() {
			return nil, infer.ErrDeadline
		}
		price := p.exp(k, 0)
		if p.slope {
			more := p.stars.Loses(k)
			price = p.exp(k, more-1) - p.exp(k, more)
		}
		if math.IsNaN(price) {
			return nil, fmt.Errorf("%w: price %v of kind %d, %+v", infer.ErrNaN, price, k+1, p.stars.kinds[k])
		}
		p.prices[k] = max(price*p.unit, leastPrice)
	}
	return p.prices, nil
}

// KindPrices returns the prices that a network on the graph of kinds sets for kinds that were seen before: see KindStars.Seen.
func KindPrices(net *infer.Network, kinds []feature.Kind, sums feature.Kinds) ([]float64, error) {
	p := newKindPrices(net)
	p.stars.See(kinds, sums)
	return p.now()
}

// exp returns the exponential of the network's output for a kind with so many places more: of a value, what its pods wait for in percent of
// the cluster.
func (p *kindPrices) exp(k int, more float64) float64 {
	p.stars.star(&p.star, k, more)
	p.session.Node(p.phi, &p.star)
	value := float64(infer.Dot(p.phi, p.psi))
	if math.IsInf(value, 0) {
		return math.NaN()
	}
	return math.Exp(min(value, most))
}

// KindStars encodes the kinds of pods of a cluster for a network on the graph of kinds. It is not safe for concurrent use.
type KindStars struct {
	layout *feature.Layout
	hears  bool
	kinds  []feature.Kind
	sums   feature.Kinds
	x      []float32
}

// NewKindStars returns an encoder of the features of a layout. Without hears, kinds hear nothing of nodes: as if there were none.
func NewKindStars(layout *feature.Layout, hears bool) *KindStars {
	return &KindStars{layout: layout, hears: hears}
}

// Look makes star and Cluster encode the nodes of a table that is up to date.
func (e *KindStars) Look(t *supply.Table) {
	requested, nodes := t.Requested, float64(t.Available)
	e.sums = feature.Kinds{
		CPU: cluster.Fraction(requested.MilliCPU, t.Capacity.MilliCPU), Memory: cluster.Fraction(requested.Memory, t.Capacity.Memory),
		Nodes: nodes, Running: float64(requested.Pods),
	}
	arrived := each.Sum(t.Kinds, func(k *cluster.Kind) float64 { return k.Arrived })
	e.kinds = e.kinds[:0]
	for i, k := range t.Kinds {
		of, share := &t.Totals[i], objective.Share(k.Pod.Requests, t.Capacity)
		x := feature.Kind{
			Share: k.Arrived / max(arrived, 1), Waiting: k.Waiting, Size: share * nodes,
			Free: of.Free, Places: of.Places, Breadth: of.Nodes / max(t.Nodes, 1),
		}
		x.Expected = x.Share * e.sums.Running
		e.sums.Waiting += share * k.Waiting
		e.kinds = append(e.kinds, x)
	}
}

// Seen returns what the encoder looked at last. It is valid until the next look.
func (e *KindStars) Seen() ([]feature.Kind, feature.Kinds) { return e.kinds, e.sums }

// See makes star and Cluster encode what another encoder has Seen.
func (e *KindStars) See(kinds []feature.Kind, sums feature.Kinds) { e.kinds, e.sums = kinds, sums }

// star encodes a kind with so many places more or fewer than there are.
func (e *KindStars) star(g *graph.GPUNode, k int, more float64) {
	x := e.kinds[k]
	if x.Free = max(x.Free+more, 0); !e.hears {
		x.Free, x.Places, x.Breadth = 0, 0, 0
	}
	width := e.layout.Widths.Node
	g.X = feature.Fill(e.layout.Node, &feature.Node{Kind: &x}, slices.Grow(g.X[:0], width)[:width])
	g.Free = append(g.Free[:0], 0) // without anything around it, the centre would have no value
}

// Loses returns how many places a kind must have more so that it has one to lose: 0, or 1 where none is left.
func (e *KindStars) Loses(k int) float64 {
	if e.kinds[k].Free < 1 {
		return 1
	}
	return 0
}

// Cluster returns the features of the cluster, which are valid until the next call.
func (e *KindStars) Cluster() []float32 {
	width := e.layout.Widths.Cluster
	e.x = feature.Fill(e.layout.Cluster, &feature.Candidates{Kinds: &e.sums}, slices.Grow(e.x[:0], width)[:width])
	return e.x
}

// All encodes all kinds with so many places more.
func (e *KindStars) All(more func(k int) float64) []graph.GPUNode {
	out := make([]graph.GPUNode, len(e.kinds))
	for k := range out {
		e.star(&out[k], k, more(k))
	}
	return out
}
