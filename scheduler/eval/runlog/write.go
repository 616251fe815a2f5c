package runlog

import (
	"fmt"
	"slices"

	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/headline"
)

// judged names the metrics whose differences from the baseline are written.
var judged = []string{"cost", "meanCost", "unscheduled", "waited"}

// Write writes a comparison: the scenario, a verdict on each result, each episode's metrics, the differences from the baseline, and the
// waiting times of the watched episodes.
func (l *Log) Write(c *eval.Comparison) {
	var metrics []eval.Metric
	for _, name := range judged {
		m, _ := eval.FindMetric(name)
		metrics = append(metrics, m)
	}
	all := c.Differences(metrics)
	rows := []runfolder.Row{scenarioOf(c)}
	for k, r := range c.Results[1:] {
		row := headline.Row{
			Scenario: c.Scenario.Name, Baseline: c.Results[0], Policy: r, Difference: all[slices.Index(judged, overTime.Name)][k],
			Left: all[slices.Index(judged, eval.Unscheduled.Name)][k],
		}
		rows = append(rows, verdictOf(row, len(metrics)*len(all[0])))
	}
	rows = append(rows, thresholds(c)...)
	for _, r := range c.Results {
		for i, o := range r.Outcomes {
			e := runfolder.Episode{Scenario: c.Scenario.Name, Contender: r.Name, Seed: c.Seeds[i], Values: map[string]float64{}}
			for _, m := range eval.Metrics {
				if c.Shows(m) {
					e.Values[m.Name] = m.Of(o)
				}
			}
			rows = append(rows, e)
		}
	}
	rows = append(rows, differences(c, metrics, all, nil)...)
	var names []string
	for _, r := range c.Results {
		names = append(names, r.Name)
	}
	l.WriteRows(c.Scenario.Name, names, rows...)
}

func scenarioOf(c *eval.Comparison) runfolder.Scenario {
	s := runfolder.Scenario{
		Name: c.Scenario.Name, About: c.Scenario.About, Objective: c.Scenario.Objective.Name(), Baseline: c.Results[0].Name,
		Samples: c.Samples(), TimeUnit: "arrivals", Rule: rule(c, len(judged)),
	}
	if c.Scenario.Trace != nil || c.Scenario.OpenB != nil {
		s.TimeUnit = "seconds"
	}
	for _, m := range eval.Metrics {
		if c.Shows(m) {
			title := m.Title
			if m.Name == overTime.Name {
				title = eval.Objective.Title + " " + title
			}
			s.Metrics = append(s.Metrics, runfolder.Metric{Name: m.Name, Title: title, Digits: m.Digits})
		}
	}
	return s
}

// rule explains how the differences in a number of metrics are marked; empty without any.
func rule(c *eval.Comparison, metrics int) string {
	if n := metrics * (len(c.Results) - 1); n > 0 && c.Samples() > 1 {
		return eval.Words.Rule(c.Samples(), n)
	}
	return ""
}

// differences returns the rows of differences that were judged together, by metric and result. more holds the names of the metrics where
// more is better.
func differences(c *eval.Comparison, metrics []eval.Metric, all [][]eval.Difference, more map[string]bool) (out []runfolder.Row) {
	for i, m := range metrics {
		for k, d := range all[i] {
			out = append(out, DifferenceRow(d, runfolder.Difference{Scenario: c.Scenario.Name, Contender: c.Results[k+1].Name, Metric: m.Name},
				more[m.Name]))
		}
	}
	return out
}

// DifferenceRow completes the row of a difference, which has its names. more: more of the metric is better.
func DifferenceRow(d eval.Difference, row runfolder.Difference, more bool) runfolder.Difference {
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
var says = map[headline.Verdict]struct {
	state  runfolder.State
	phrase string
}{
	headline.Ahead: {runfolder.Better, "is ahead of"}, headline.Behind: {runfolder.Worse, "is behind"},
	headline.Level:   {runfolder.Level, "is level with"},
	headline.Mixed:   {runfolder.Note, "is better in one and worse in the other than"},
	headline.Unclear: {runfolder.Unclear, "is not clearly apart from"},
	headline.Few:     {runfolder.Note, "was compared on too few seeds with"},
	headline.One:     {runfolder.Note, "was compared on one sample with"},
}

// verdictOf returns the verdict of a row, which was judged together with the given number of comparisons.
func verdictOf(r headline.Row, comparisons int) runfolder.Verdict {
	word := r.Verdict()
	text := fmt.Sprintf("%s %s %s: objective over time %.4f against %.4f%s, unscheduled %.1f against %.1f", r.Policy.Name, says[word].phrase, r.Baseline.Name,
		r.Policy.Mean(overTime), r.Baseline.Mean(overTime), change(r.Difference), r.Policy.Mean(eval.Unscheduled),
		r.Baseline.Mean(eval.Unscheduled))
	if word == headline.Few {
		text += fmt.Sprintf("; a verdict takes at least %d seeds, and there are %d", eval.MinSeeds(comparisons), r.Difference.Samples)
	}
	return runfolder.Verdict{Scenario: r.Scenario, Contender: r.Policy.Name, State: says[word].state, Text: text}
}

var overTime, _ = eval.FindMetric("meanCost")

// change describes a difference in parentheses.
func change(d eval.Difference) string {
	text := ""
	if d.Relative != nil {
		text = fmt.Sprintf("%+.1f %%", 100**d.Relative)
	}
	if d.Samples > 1 {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("difference %+.4f to %+.4f", d.Low, d.High)
	}
	if chance := d.Chance(); chance != "" {
		text += ", p " + chance
	}
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}
