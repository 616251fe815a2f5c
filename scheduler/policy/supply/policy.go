package supply

import (
	"cmp"
	"math"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
)

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
	small  float64   // smallCost, in percent of the cluster
	priced bool      // whether the last decision had costs
}

const (
	partWeight  = 0.37  // of room that is no whole place, if the kind may run on all nodes
	priceWeight = 24    // of the cost's logarithm, in scores of linear
	smallCost   = 0.015 // in percent of a node: of placements that differ by less, linear decides
)

// New returns a policy with a name.
func New(name string, p Pricer) *Policy {
	return &Policy{name: name, linear: linear.Tuned("linear"), pricer: p}
}

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
	p.small = smallCost / max(p.supply.Nodes, 1)
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
