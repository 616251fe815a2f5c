package heuristic

import (
	"cmp"
	"math"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/supply"
)

// The rules that keep room for pods which few nodes serve. They know the kinds of pods that have arrived (cluster.Demand); where nobody
// counts them they are linear.
var (
	price = Heuristic{
		Name: "price", About: "a node whose room the pods that arrive need least, by how many they are and how little room is left for them",
		New:   func(policy.Setting) policy.Policy { return &priced{linear: linear.Tuned("linear")} },
		Kinds: true, NotImitable: hasState,
	}
	reserve = Heuristic{
		Name: "reserve", About: "a node that serves the fewest of those kinds of pods which not every node serves; of equal ones, linear's",
		New:   func(policy.Setting) policy.Policy { return &reserved{linear: linear.Tuned("linear")} },
		Kinds: true, NotImitable: hasState,
	}
)

// priced is the rule price. A place for pods of a kind costs
//
//	π = arrived / (1 + free places)²
//
// about what it adds to the sum over the kinds of arrived / (1 + free places) if the place is lost. A placement costs π for each place that
// it takes from a kind, and a part of π for the room that it takes, in places of the kind, although no whole place is lost: such room
// becomes a place when other pods leave. The fewer nodes a kind has, the larger the part.
type priced struct {
	linear *linear.Policy
	supply supply.Table
	prices supply.Prices // Whole is π
	costs  []float64     // of the candidates
	priced bool          // whether the last decision had costs
}

const (
	partWeight  = 0.37  // of room that is no whole place, if the kind may run on all nodes
	priceWeight = 24    // of the cost's logarithm, in scores of linear
	tinyPrice   = 1e-11 // makes no difference, and has a logarithm
)

// Name implements policy.Policy.
func (*priced) Name() string { return price.Name }

// Score implements policy.Policy.
func (p *priced) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	p.priced = s.Demand != nil
	if err := p.linear.Score(s, pod, candidates, scores); err != nil || !p.priced {
		return err
	}
	p.supply.Sync(s)
	p.setPrices()
	p.costs = slices.Grow(p.costs[:0], len(candidates))[:len(candidates)]
	p.supply.Cost(s, candidates, &pod.Requests, p.prices, p.costs)
	for i, cost := range p.costs {
		scores[i] -= float32(priceWeight * math.Log(cost+tinyPrice))
	}
	return nil
}

// mostKept is the largest number of kinds in a reading.
const mostKept = 3

// Reading implements policy.Reader.
func (p *priced) Reading(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, i int) *policy.Reading {
	r := p.linear.Reading(s, pod, candidates, i)
	if r == nil || !p.priced {
		return r
	}
	r.Features, r.Weights = append(r.Features, float32(math.Log(p.costs[i]+tinyPrice))), append(r.Weights, -priceWeight)
	var arrived float64
	for _, k := range p.supply.Kinds {
		arrived += k.Arrived
	}
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

func (p *priced) setPrices() {
	at := supply.Prices{Whole: p.prices.Whole[:0], Part: p.prices.Part[:0]}
	var arrived float64
	for _, k := range p.supply.Kinds {
		arrived += k.Arrived
	}
	for i, k := range p.supply.Kinds {
		t := &p.supply.Totals[i]
		place := k.Arrived / max(arrived, 1) / ((1 + t.Free) * (1 + t.Free))
		at.Whole = append(at.Whole, place)
		at.Part = append(at.Part, place*partWeight*math.Sqrt(p.supply.Nodes/max(t.Nodes, 1)))
	}
	p.prices = at
}

// reserved is the rule reserve.
type reserved struct {
	linear policy.Policy
	supply supply.Table
}

// Name implements policy.Policy.
func (*reserved) Name() string { return reserve.Name }

// Score implements policy.Policy.
func (p *reserved) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	if err := p.linear.Score(s, pod, candidates, scores); err != nil || s.Demand == nil {
		return err
	}
	p.supply.Sync(s)
	low, high := float32(math.Inf(1)), float32(math.Inf(-1))
	for _, v := range scores {
		low, high = min(low, v), max(high, v)
	}
	for i, v := range candidates {
		scores[i] -= (high - low + 1) * float32(p.supply.Special(v))
	}
	return nil
}
