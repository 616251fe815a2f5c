package front

import (
	"fmt"

	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/runlog"
)

// label names a point within its mix.
func (p Point) label() string {
	if p.Group == Conditioned || p.Group == Single {
		return p.Name + " (" + string(p.Group) + ")"
	}
	return p.Name
}

// Folder returns the rows of a run folder: a scenario for each mix, in which the policies are compared with the one made for it.
func (f *Front) Folder() (out []runfolder.Row) {
	if f == nil {
		return nil
	}
	a, b := f.Plan.Terms[0].Name(), f.Plan.Terms[1].Name()
	rows, comparisons := f.Rows()
	for _, m := range f.Plan.Mixes {
		name := m.Name()
		s := runfolder.Scenario{
			Name: f.Plan.Scenario.Name + ", " + name, About: f.Plan.Scenario.About, Objective: name, Samples: len(f.Plan.Seeds),
			Rule: eval.Words.Rule(len(f.Plan.Seeds), comparisons),
			Metrics: []runfolder.Metric{
				{Name: "cost", Title: "cost of the mix", Digits: 4}, {Name: "first", Title: a, Digits: 4}, {Name: "second", Title: b, Digits: 4},
				{Name: "unscheduled", Title: "unscheduled", Digits: 1},
			},
		}
		if i := f.reference(name); i >= 0 {
			s.Baseline = f.Points[i].label()
		}
		out = append(out, s)
		t := runfolder.Table{Scenario: s.Name, Title: "Policies at this mix", Columns: f.columns()}
		for _, r := range rows[name] {
			t.Rows = append(t.Rows, r.cells())
			of := f.result(r.Point, m)
			for i, seed := range f.Plan.Seeds {
				out = append(out, runfolder.Episode{Scenario: s.Name, Contender: r.label(), Seed: seed, Values: map[string]float64{
					"cost": of.Outcomes[i].MeanCost, "first": r.Costs[0][i], "second": r.Costs[1][i], "unscheduled": float64(r.Outcomes[i].Unscheduled),
				}})
			}
			if r.reference != "" {
				out = append(out, r.verdict(s), r.change(s))
			}
		}
		out = append(out, t)
	}
	return out
}

// change returns the difference of a row from its reference.
func (r Row) change(s runfolder.Scenario) runfolder.Difference {
	return runlog.DifferenceRow(r.Difference, runfolder.Difference{Scenario: s.Name, Contender: r.label(), Metric: "cost"}, false)
}

// phrases compare a policy with the one made for the mix, for verdicts.
var phrases = map[eval.Mark]string{
	eval.Unmarked: "was compared on too few seeds with", eval.None: "is level with", eval.Unclear: "is not clearly apart from",
	eval.Lower: "is ahead of", eval.Higher: "is behind",
}

// verdict judges a policy against the one made for the mix.
func (r Row) verdict(s runfolder.Scenario) runfolder.Verdict {
	d := r.Difference
	text := fmt.Sprintf("%s %s %s: cost %+.4f (%+.4f to %+.4f), %+.1f %% of the range of all policies", r.label(),
		phrases[d.Mark], s.Baseline, d.Mean, d.Low, d.High, 100*r.ofRange)
	return runfolder.Verdict{Scenario: s.Name, Contender: r.label(), State: runlog.StateOf(d.Mark, false), Text: text}
}
