package heuristic

import (
	"math"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/supply"
)

// The rules that keep room for pods which few nodes serve. They know the kinds of pods that have arrived (cluster.Demand); where nobody
// counts them they are linear.
var (
	price = Heuristic{
		Name: "price", About: "a node whose room the pods that arrive need least, by how many they are and how little room is left for them",
		New:   func(policy.Setting) policy.Policy { return supply.New("price", &byArrivals{}) },
		Kinds: true, NotImitable: hasState,
	}
	reserve = Heuristic{
		Name: "reserve", About: "a node that serves the fewest of those kinds of pods which not every node serves; of equal ones, linear's",
		New:   func(policy.Setting) policy.Policy { return &reserved{linear: linear.Tuned("linear")} },
		Kinds: true, NotImitable: hasState,
	}
)

// byArrivals is the prices of the rule price. A place for pods of a kind costs
//
//	π = nodes / 5 · arrived / (1 + free places)²
//
// with arrivals as a share of all: about what it adds to the sum over the kinds of arrived / (1 + free places) if the place is lost. The
// factor makes prices about as large as the networks' on clusters of all sizes.
type byArrivals struct{ prices []float64 }

// Prices implements supply.Pricer.
func (p *byArrivals) Prices(_ *cluster.Snapshot, t *supply.Table) ([]float64, error) {
	p.prices = p.prices[:0]
	arrived := each.Sum(t.Kinds, func(k *cluster.Kind) float64 { return k.Arrived })
	for i, k := range t.Kinds {
		free := 1 + t.Totals[i].Free
		p.prices = append(p.prices, t.Nodes/5*k.Arrived/max(arrived, 1)/(free*free))
	}
	return p.prices, nil
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
