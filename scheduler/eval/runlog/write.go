package runlog

import (
	"fmt"

	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/headline"
)

// judged names the metrics whose differences from the baseline are written.
var judged = []string{"cost", "meanCost", "unscheduled", "waited"}

// Write writes a comparison: the scenario, verdicts, each episode's metrics, the differences from the baseline,
// and the waiting times of the episodes that were watched. It returns the first error of all writes so far.
func (l *Log) Write(c *eval.Comparison) error {
	rows := []runfolder.Row{scenarioOf(c)}
	for _, v := range verdicts(c) {
		rows = append(rows, v)
	}
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
	for _, d := range differences(c, judgedMetrics()) {
		rows = append(rows, d)
	}
	var names []string
	for _, r := range c.Results {
		names = append(names, r.Name)
	}
	return l.WriteRows(c.Scenario.Name, names, rows...)
}

func scenarioOf(c *eval.Comparison) runfolder.Scenario {
	s := runfolder.Scenario{
		Name: c.Scenario.Name, About: c.Scenario.About, Objective: c.Scenario.Objective.Name(), Baseline: c.Results[0].Name,
		Samples: c.Samples(), TimeUnit: "arrivals",
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

// judgedMetrics returns the metrics whose differences Write writes.
func judgedMetrics() (out []eval.Metric) {
	for _, name := range judged {
		if m, known := eval.FindMetric(name); known {
			out = append(out, m)
		}
	}
	return out
}

// differences returns the rows of the differences of some metrics, with p adjusted for all of them.
func differences(c *eval.Comparison, metrics []eval.Metric) (out []runfolder.Difference) {
	for i, all := range c.Differences(metrics) {
		for k, d := range all {
			row := runfolder.Difference{Scenario: c.Scenario.Name, Contender: c.Results[k+1].Name, Metric: metrics[i].Name, Mean: d.Mean, Relative: d.Relative}
			if c.Samples() > 1 {
				row.Low, row.High, row.P = &d.Low, &d.High, &d.Adjusted
			}
			out = append(out, row)
		}
	}
	return out
}

// verdicts returns the headline of the comparison and its thresholds. Without a network, the headline compares
// the contender that has the lowest objective over time with the baseline.
func verdicts(c *eval.Comparison) (out []runfolder.Verdict) {
	rows := headline.Of([]*eval.Comparison{c}).Rows
	switch {
	case len(rows) == 1:
		out = append(out, ofNetwork(rows[0], c))
	case len(c.Results) > 1:
		out = append(out, ofBest(c))
	}
	for _, v := range c.Verdicts {
		state := runfolder.Fail
		if v.Pass {
			state = runfolder.Pass
		}
		out = append(out, runfolder.Verdict{Scenario: c.Scenario.Name, State: state, Text: fmt.Sprintf("%s (%.4g and %.4g)", v.Threshold, v.Left, v.Right)})
	}
	return out
}

// states are the states of the words of headline.Row.Verdict; the others are notes.
var states = map[string]runfolder.State{"ahead": runfolder.Better, "behind": runfolder.Worse, "level": runfolder.Level}

// ofNetwork returns the verdict on the best network.
func ofNetwork(r headline.Row, c *eval.Comparison) runfolder.Verdict {
	word := r.Verdict()
	state, known := states[word]
	if !known {
		state = runfolder.Note
	}
	phrase := map[string]string{"ahead": "is ahead of", "behind": "is behind", "level": "is level with", "mixed": "is better in one and worse in the other than", "one sample": "was compared on one sample with"}[word]
	text := fmt.Sprintf("%s %s %s, the best policy without a network: objective over time %.4f against %.4f%s, unscheduled %.1f against %.1f",
		r.Network.Name, phrase, r.Baseline.Name, r.Network.Mean(overTime), r.Baseline.Mean(overTime), change(r.Difference, c.Samples()), r.Network.Mean(eval.Unscheduled), r.Baseline.Mean(eval.Unscheduled))
	return runfolder.Verdict{Scenario: c.Scenario.Name, Contender: r.Network.Name, State: state, Text: text}
}

var overTime, _ = eval.FindMetric("meanCost")

// ofBest returns the verdict on the contender with the lowest objective over time, the baseline excluded.
func ofBest(c *eval.Comparison) runfolder.Verdict {
	best, base := 1, c.Results[0]
	for i, r := range c.Results[1:] {
		if r.Mean(overTime) < c.Results[best].Mean(overTime) {
			best = i + 1
		}
	}
	r, d := c.Results[best], c.Differences([]eval.Metric{overTime})[0][best-1]
	state, phrase := runfolder.Level, "is level with"
	switch {
	case c.Samples() < 2:
		state, phrase = runfolder.Note, "was compared on one sample with"
	case d.Adjusted < eval.Level && d.Mean < 0:
		state, phrase = runfolder.Better, "is ahead of"
	case d.Adjusted < eval.Level:
		state, phrase = runfolder.Worse, "is behind"
	}
	text := fmt.Sprintf("%s %s %s: objective over time %.4f against %.4f%s, unscheduled %.1f against %.1f", r.Name, phrase, base.Name,
		r.Mean(overTime), base.Mean(overTime), change(d, c.Samples()), r.Mean(eval.Unscheduled), base.Mean(eval.Unscheduled))
	return runfolder.Verdict{Scenario: c.Scenario.Name, Contender: r.Name, State: state, Text: text}
}

// change describes a difference in parentheses.
func change(d eval.Difference, samples int) string {
	text := ""
	if d.Relative != nil {
		text = fmt.Sprintf("%+.1f %%", 100**d.Relative)
	}
	if samples > 1 {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("difference %+.4f to %+.4f, p %s", d.Low, d.High, eval.Significance(d.Adjusted))
	}
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}
