package front

import (
	"fmt"

	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/runlog"
)

// Folder returns the rows of a run folder: a scenario for each mix, in which the policies are compared with the one made for it.
func (f *Front) Folder() (out []runfolder.Row) {
	if f == nil {
		return nil
	}
	all, comparisons := f.mixes()
	for _, a := range all {
		s := runfolder.Scenario{
			Name: f.Plan.Scenario.Name + ", " + a.mix, About: f.Plan.Scenario.About, Objective: a.mix,
			Rule: eval.Words.Rule(len(f.Plan.Seeds), comparisons),
		}
		columns := f.columns(a)
		out = append(out, runlog.ColumnRows(s, columns, columns[:1], [][]*eval.Difference{a.differences})...)
		for i := range a.entrants {
			if a.differences[i] != nil {
				out = append(out, a.verdict(s.Name, i))
			}
		}
		table := f.table(a)
		out = append(out, runfolder.Table{Scenario: s.Name, Title: "Policies at this mix", Columns: table[0], Rows: table[1:]})
	}
	return out
}

// columns returns the cost of the mix, the two terms and the unscheduled pods.
func (f *Front) columns(a atMix) []eval.Column {
	column := func(c *eval.Comparison, m eval.Metric, name, title string) eval.Column {
		m.Name, m.Title = name, title
		return c.Column(m)
	}
	return []eval.Column{
		column(a.cost, overTime, "cost", "cost of the mix"), column(a.terms[0], overTime, "first", f.Plan.Terms[0].Name()),
		column(a.terms[1], overTime, "second", f.Plan.Terms[1].Name()), column(a.cost, eval.Unscheduled, "unscheduled", "unscheduled"),
	}
}

// phrases compare a policy with the one made for the mix, for verdicts.
var phrases = map[eval.Mark]string{
	eval.Unmarked: "was compared on too few seeds with", eval.None: "is level with", eval.Unclear: "is not clearly apart from",
	eval.Lower: "is ahead of", eval.Higher: "is behind",
}

// verdict judges an entrant against the one made for the mix.
func (a atMix) verdict(scenario string, i int) runfolder.Verdict {
	d, name := a.differences[i], a.entrants[i].label()
	text := fmt.Sprintf("%s %s %s: cost %s, %+.1f %% of the range of all policies", name, phrases[d.Mark], a.entrants[a.cost.Baseline].label(),
		d.Text(4), 100*a.ofRange(i))
	return runfolder.Verdict{Scenario: scenario, Contender: name, State: runlog.StateOf(d.Mark, false), Text: text}
}
