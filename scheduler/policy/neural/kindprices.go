package neural

import (
	"fmt"
	"math"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy/supply"
)

// kindPrices is the prices of places by a network on the graph of kinds. With the head actor-critic the actor's output is the logarithm of
// the price. With the head dqn the output is the logarithm of what a kind's pods will wait for, and the price is by how much that rises if
// one more place is lost; a network that hears nothing of places takes all of it. It is not safe for concurrent use.
type kindPrices struct {
	stars   *KindStars
	slope   bool // whether the price is the difference of two values: with one place less, and without
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
	return &kindPrices{
		stars: NewKindStars(net.Layout(), a.Encoder == checkpoint.GNN), slope: a.Encoder == checkpoint.GNN && a.Head == checkpoint.DQN,
		session: net.Actor(), phi: make([]float32, net.Width()), psi: make([]float32, net.Width()),
	}
}

// KindOffset is added to what pods of a kind wait for, in percent of the cluster, before its logarithm becomes a network's target.
const KindOffset = 0.01

// most is the largest logarithm that is believed: more than pods can wait for.
const most = 20

// leastPrice keeps prices above 0, where more room would make a kind wait longer.
const leastPrice = 1e-9

// Prices implements supply.Pricer.
func (p *kindPrices) Prices(s *cluster.Snapshot, t *supply.Table) ([]float64, error) {
	p.stars.Look(s, t)
	p.session.Cluster(p.psi, p.stars.Cluster())
	p.prices = slices.Grow(p.prices[:0], len(t.Kinds))[:len(t.Kinds)]
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
			return nil, fmt.Errorf("%w: price %v of %s", infer.ErrNaN, price, t.Kinds[k].Text())
		}
		p.prices[k] = max(price, leastPrice)
	}
	return p.prices, nil
}

// exp returns the exponential of the network's output for a kind with so many places more: of a value, what its pods wait for in percent of
// the cluster.
func (p *kindPrices) exp(k int, more float64) float64 {
	p.stars.Star(&p.star, k, more)
	p.session.Node(p.phi, &p.star)
	value := float64(infer.Dot(p.phi, p.psi))
	if math.IsInf(value, 0) {
		return math.NaN()
	}
	return math.Exp(min(value, most))
}
