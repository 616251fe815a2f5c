package neural

import (
	"fmt"
	"math"
	"slices"

	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy/supply"
)

// kindPrices is the prices of places by a network on the graph of kinds: by how much the value of a kind, the logarithm of what its pods
// will wait for, rises if one more place is lost. It is not safe for concurrent use.
type kindPrices struct {
	stars   *KindStars
	session *infer.NodeSession
	star    graph.GPUNode
	phi     []float32
	psi     []float32
	prices  []float64
}

// newKindPrices returns the prices of a network on the graph of kinds.
func newKindPrices(net *infer.Network) *kindPrices {
	return &kindPrices{
		stars: NewKindStars(net.Layout()), session: net.Actor(), phi: make([]float32, net.Width()), psi: make([]float32, net.Width()),
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
		more := 0.
		if t.Totals[k].Free < 1 {
			more = 1
		}
		rise := p.wait(k, more-1) - p.wait(k, more)
		if math.IsNaN(rise) {
			return nil, fmt.Errorf("%w: price %v of %s", infer.ErrNaN, rise, t.Kinds[k].Text())
		}
		p.prices[k] = max(rise, leastPrice)
	}
	return p.prices, nil
}

// wait returns what the network expects a kind's pods to wait for, in percent of the cluster, with so many places more.
func (p *kindPrices) wait(k int, more float64) float64 {
	p.stars.Star(&p.star, k, more)
	p.session.Node(p.phi, &p.star)
	value := float64(infer.Dot(p.phi, p.psi))
	if math.IsInf(value, 0) {
		return math.NaN()
	}
	return math.Exp(min(value, most))
}
