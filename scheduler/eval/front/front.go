// Package front measures the trade-off between two terms of the objective: what networks of many objectives reach at
// several mixes of the two, what networks and policies for a single mix reach, and the baselines.
package front

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/stat"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
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

// Plan describes the comparison.
type Plan struct {
	Scenario eval.Scenario
	Terms    [2]objective.Term
	Mixes    []objective.Mix // of the two terms
	Entrants []Entrant
	Seeds    []uint64
}

// Point holds an entrant's costs. The slices are by seed.
type Point struct {
	Name     string
	Group    Group
	Mix      string        // empty for a baseline
	Costs    [2][]float64  // each term over time
	Outcomes []sim.Outcome // of the first term
}

// Front holds the points of a plan.
type Front struct {
	Plan   Plan
	Points []Point
}

// Run plays every entrant on every seed, once for each term: no policy reads the simulator's objective, so it makes the
// same placements both times. progress may be nil.
func Run(ctx context.Context, p Plan, progress eval.Progress) (*Front, error) {
	f := &Front{Plan: p}
	var contenders []eval.Contender
	for i, e := range p.Entrants {
		mix := ""
		if e.Mix != nil {
			mix = e.Mix.Name()
		}
		f.Points = append(f.Points, Point{Name: e.Name, Group: e.Group, Mix: mix})
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
		for i, r := range c.Results[:len(contenders)] {
			f.Points[i].Costs[k] = r.Values(overTime)
			if k == 0 {
				f.Points[i].Outcomes = r.Outcomes
			}
		}
	}
	return f, nil
}

// overTime is the metric of a term's cost.
var overTime, _ = eval.FindMetric("meanCost")

// Row compares a point with the one made for the same mix.
type Row struct {
	Point
	reference  string          // name of the point that the differences refer to
	Cost       float64         // of the mix, over time
	Difference eval.Difference // of the mix's cost; Adjusted is for all rows with a reference
	// ofRange is the mean difference as a share of the range of the mix's cost over all points.
	ofRange float64
}

// Rows returns the points by mix: the mix's own, then the baselines. A point is compared with the first single one of its
// mix, or with the greedy one if there is none. All differences are judged together; comparisons is their number.
func (f *Front) Rows() (out map[string][]Row, comparisons int) {
	out = map[string][]Row{}
	var all []*eval.Difference
	for _, m := range f.Plan.Mixes {
		rows := f.rows(m)
		out[m.Name()] = rows
		for i := range rows {
			if rows[i].reference != "" {
				all = append(all, &rows[i].Difference)
			}
		}
	}
	eval.Together(all...)
	return out, len(all)
}

// rows returns the rows of a mix, whose differences are not judged yet.
func (f *Front) rows(m objective.Mix) (out []Row) {
	c := &eval.Comparison{Scenario: f.Plan.Scenario, Seeds: f.Plan.Seeds}
	low, high := f.span(m)
	reference := f.reference(m.Name())
	for i, x := range f.Points {
		if x.Mix != "" && x.Mix != m.Name() {
			continue
		}
		r := f.result(x, m)
		row := Row{Point: x, Cost: r.Mean(overTime)}
		if reference >= 0 && reference != i {
			c.Results = []eval.Result{f.result(f.Points[reference], m)}
			row.reference, row.Difference = f.Points[reference].Name, c.Difference(r, overTime)
			row.ofRange = row.Difference.Mean / max(high-low, 1e-12)
		}
		out = append(out, row)
	}
	return out
}

// reference returns the index of the point that the others of a mix are compared with; -1 for none.
func (f *Front) reference(mix string) int {
	for _, g := range []Group{Single, Greedy} {
		if i := slices.IndexFunc(f.Points, func(p Point) bool { return p.Mix == mix && p.Group == g }); i >= 0 {
			return i
		}
	}
	return -1
}

// result returns a point with the costs of a mix.
func (f *Front) result(p Point, m objective.Mix) eval.Result {
	r := eval.Result{Name: p.Name, Kind: eval.Baseline, Outcomes: slices.Clone(p.Outcomes)}
	if p.Group == Conditioned {
		r.Kind = eval.Network
	}
	weights := f.weights(m)
	for i := range r.Outcomes {
		r.Outcomes[i].MeanCost = weights[0]*p.Costs[0][i] + weights[1]*p.Costs[1][i]
	}
	return r
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

// span returns the lowest and the highest mean cost of a mix over all points.
func (f *Front) span(m objective.Mix) (low, high float64) {
	for i, p := range f.Points {
		cost := f.result(p, m).Mean(overTime)
		if i == 0 {
			low, high = cost, cost
		}
		low, high = min(low, cost), max(high, cost)
	}
	return low, high
}

// Unscheduled returns the mean number of pods that the point left over.
func (p Point) Unscheduled() float64 {
	var values []float64
	for _, o := range p.Outcomes {
		values = append(values, float64(o.Unscheduled))
	}
	return stat.Mean(values, nil)
}
