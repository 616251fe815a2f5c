package runlog

import (
	"fmt"
	"strings"

	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
)

// judged are the metrics whose differences from the baseline are written.
var judged = []eval.Metric{eval.Objective, overTime, eval.Unscheduled, waited}

// Write writes a comparison: the scenario, a verdict on each result, each episode's metrics, the differences from the baseline, and the
// waiting times of the watched episodes.
func (l *Log) Write(c *eval.Comparison) {
	s := runfolder.Scenario{Name: c.Scenario.Name, About: c.Scenario.About, Objective: c.Scenario.Objective.Name(), TimeUnit: "arrivals"}
	if c.Scenario.Trace != nil || c.Scenario.OpenB != nil {
		s.TimeUnit = "seconds"
	}
	var columns []eval.Column
	for _, m := range eval.Metrics {
		if !c.Shows(m) {
			continue
		}
		if m.Name == overTime.Name {
			m.Title = eval.Objective.Title + " " + m.Title
		}
		columns = append(columns, c.Column(m))
	}
	differences := c.Columns(judged...)
	all, names := eval.Judge(differences...), []string{c.Results[0].Name}
	rows := columnRows(s, columns, differences, all)
	for i, r := range c.Results[1:] {
		names = append(names, r.Name)
		rows = append(rows, verdictOf(row{
			Scenario: s.Name, Baseline: c.Results[0], Policy: r, Difference: *all[1][i+1], Left: *all[2][i+1], // as in judged
		}, len(judged)*(len(c.Results)-1)))
	}
	l.WriteRows(s.Name, names, append(rows, thresholds(c)...)...)
}

// differenceRow completes the row of a difference, which has its names. more: more of the metric is better.
func differenceRow(d eval.Difference, row runfolder.Difference, more bool) runfolder.Difference {
	row.Mean, row.Relative = d.Mean, d.Relative
	if d.Samples > 1 {
		row.Low, row.High = &d.Low, &d.High
	}
	if d.Mark == eval.Unmarked {
		return row
	}
	row.P, row.Mark = &d.Adjusted, StateOf(d.Mark, more)
	return row
}

// StateOf returns the state of a verdict on a difference; Note for one without a mark.
func StateOf(m eval.Mark, more bool) runfolder.State {
	if more {
		m = m.Opposite()
	}
	return map[eval.Mark]runfolder.State{
		eval.Unmarked: runfolder.Note, eval.None: runfolder.Level, eval.Unclear: runfolder.Unclear, eval.Lower: runfolder.Better,
		eval.Higher: runfolder.Worse,
	}[m]
}

// thresholds returns the verdicts on the thresholds.
func thresholds(c *eval.Comparison) (out []runfolder.Row) {
	for _, v := range c.Verdicts {
		state := runfolder.Fail
		if v.Pass {
			state = runfolder.Pass
		}
		out = append(out, runfolder.Verdict{
			Scenario: c.Scenario.Name, State: state, Text: fmt.Sprintf("%s (%.4g and %.4g)", v.Threshold, v.Left, v.Right),
		})
	}
	return out
}

// says are the states and phrases of verdicts.
var says = map[verdict]struct {
	state  runfolder.State
	phrase string
}{
	ahead: {runfolder.Better, "is ahead of"}, behind: {runfolder.Worse, "is behind"},
	level:     {runfolder.Level, "is level with"},
	mixed:     {runfolder.Note, "is better in one and worse in the other than"},
	unclear:   {runfolder.Unclear, "is not clearly apart from"},
	fewSeeds:  {runfolder.Note, "was compared on too few seeds with"},
	oneSample: {runfolder.Note, "was compared on one sample with"},
}

// verdictOf returns the verdict of a row, which was judged together with the given number of comparisons.
func verdictOf(r row, comparisons int) runfolder.Verdict {
	word := r.verdict()
	text := fmt.Sprintf("%s %s %s: objective over time %.4f against %.4f%s, unscheduled %.1f against %.1f", r.Policy.Name, says[word].phrase,
		r.Baseline.Name,
		r.Policy.Mean(overTime), r.Baseline.Mean(overTime), change(r.Difference), r.Policy.Mean(eval.Unscheduled),
		r.Baseline.Mean(eval.Unscheduled))
	if word == fewSeeds {
		text += fmt.Sprintf("; a verdict takes at least %d seeds, and there are %d", eval.MinSeeds(comparisons), r.Difference.Samples)
	}
	return runfolder.Verdict{Scenario: r.Scenario, Contender: r.Policy.Name, State: says[word].state, Text: text}
}

var (
	overTime, _ = eval.FindMetric("meanCost")
	waited, _   = eval.FindMetric("waited")
)

// change describes a difference in parentheses.
func change(d eval.Difference) string {
	var parts []string
	if d.Relative != nil {
		parts = append(parts, fmt.Sprintf("%+.1f %%", 100**d.Relative))
	}
	if d.Samples > 1 {
		parts = append(parts, fmt.Sprintf("difference %+.4f to %+.4f", d.Low, d.High))
	}
	if chance := d.Chance(); chance != "" {
		parts = append(parts, "p "+chance)
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
