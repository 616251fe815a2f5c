// Package front measures the trade-off between two terms of the objective: what networks of many objectives reach at
// several mixes of the two, what networks and policies for a single mix reach, and the baselines.
package front

import (
	"context"
	"fmt"
	"slices"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
)

// Group is the kind of an entrant.
type Group string

// The groups.
const (
	Conditioned Group = "one network" // gets the mix as input
	Single      Group = "single"      // made for the mix
	Greedy      Group = "greedy"      // looks one pod ahead, by the mix
	Baseline    Group = "baseline"    // knows no mix
)

// Entrant is a policy for one mix, or a baseline.
type Entrant struct {
	eval.Contender
	Group Group
	Mix   objective.Mix // nil for a baseline
}

// label names an entrant within its mix.
func (e Entrant) label() string {
	if e.Group == Conditioned || e.Group == Single {
		return e.Name + " (" + string(e.Group) + ")"
	}
	return e.Name
}

// Plan describes the comparison.
type Plan struct {
	Scenario eval.Scenario
	Terms    [2]objective.Term
	Mixes    []objective.Mix // of the two terms
	Entrants []Entrant
	Seeds    []uint64
}

// Front holds the costs of a plan's entrants.
type Front struct {
	Plan  Plan
	terms [2]*eval.Comparison // of the entrants, with each term as the objective
}

// Run plays every entrant on every seed, once for each term: no policy reads the simulator's objective, so it makes the
// same placements both times. progress may be nil.
func Run(ctx context.Context, p Plan, progress eval.Progress) (*Front, error) {
	f := &Front{Plan: p}
	var contenders []eval.Contender
	for i, e := range p.Entrants {
		e.Contender.Name = fmt.Sprintf("%d %s", i, e.Name) // one network enters several times
		contenders = append(contenders, e.Contender)
	}
	for k, term := range p.Terms {
		s := p.Scenario
		s.Objective = objective.Mix{{Term: term, Weight: 1}}
		c, err := eval.Compare(ctx, s, contenders, p.Seeds, progress.Part(k, len(p.Terms), s.Name))
		if err != nil {
			return nil, err
		}
		f.terms[k] = c
	}
	return f, nil
}

// overTime is the metric of a cost.
var overTime, _ = eval.FindMetric("meanCost")

// atMix is the entrants for a mix, and the baselines.
type atMix struct {
	mix      string
	entrants []Entrant
	terms    [2]*eval.Comparison // as in Front
	// cost has the costs of the mix. Its baseline is the first single entrant of the mix, or the greedy one if there is none.
	cost        *eval.Comparison
	differences []*eval.Difference // of the cost over time, judged together with those of all mixes
	span        float64            // from the lowest to the highest mean cost of the mix over all entrants of the plan
}

// column returns the cost of the mix.
func (a atMix) column() eval.Column { return a.cost.Column(overTime) }

// ofRange returns a difference as a share of the range of the mix's cost; 0 without one.
func (a atMix) ofRange(i int) float64 {
	if a.differences[i] == nil {
		return 0
	}
	return a.differences[i].Mean / max(a.span, 1e-12)
}

// mixes returns the entrants by mix, and the number of differences that are judged together.
func (f *Front) mixes() (out []atMix, comparisons int) {
	var columns []eval.Column
	for _, m := range f.Plan.Mixes {
		a := f.at(m)
		if out, columns = append(out, a), append(columns, a.column()); a.cost.Baseline >= 0 {
			comparisons += len(a.entrants) - 1
		}
	}
	for k, all := range eval.Judge(columns...) {
		out[k].differences = all
	}
	return out, comparisons
}

// at returns the entrants for a mix, whose differences are not judged yet.
func (f *Front) at(m objective.Mix) atMix {
	a := atMix{mix: m.Name()}
	costs := f.cost(m)
	var picked []int
	var means []float64
	for i, e := range f.Plan.Entrants {
		means = append(means, costs.Results[i].Mean(overTime))
		if e.Mix == nil || e.Mix.Name() == a.mix {
			picked, a.entrants = append(picked, i), append(a.entrants, e)
		}
	}
	pick := func(c *eval.Comparison) *eval.Comparison {
		out := &eval.Comparison{Seeds: f.Plan.Seeds}
		for k, i := range picked {
			out.Results = append(out.Results, eval.Result{Name: a.entrants[k].label(), Outcomes: c.Results[i].Outcomes})
		}
		return out
	}
	a.cost, a.terms, a.span = pick(costs), [2]*eval.Comparison{pick(f.terms[0]), pick(f.terms[1])}, slices.Max(means)-slices.Min(means)
	group := func(g Group) int {
		return slices.IndexFunc(a.entrants, func(e Entrant) bool { return e.Mix != nil && e.Group == g })
	}
	if a.cost.Baseline = group(Single); a.cost.Baseline < 0 {
		a.cost.Baseline = group(Greedy)
	}
	return a
}

// cost returns the entrants with the costs of a mix.
func (f *Front) cost(m objective.Mix) *eval.Comparison {
	out := &eval.Comparison{}
	weights := f.weights(m)
	for i, r := range f.terms[0].Results {
		r.Outcomes = slices.Clone(r.Outcomes)
		for k := range r.Outcomes {
			r.Outcomes[k].MeanCost = weights[0]*r.Outcomes[k].MeanCost + weights[1]*f.terms[1].Results[i].Outcomes[k].MeanCost
		}
		out.Results = append(out.Results, r)
	}
	return out
}

// weights returns the weights of the two terms in a mix.
func (f *Front) weights(m objective.Mix) (w [2]float64) {
	for _, t := range m {
		for k, term := range f.Plan.Terms {
			if t.Term.Name() == term.Name() {
				w[k] = t.Weight
			}
		}
	}
	return w
}
