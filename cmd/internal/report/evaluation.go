package report

import (
	"fmt"
	"strings"

	"gnnsched/scheduler/eval"
)

// judged are the metrics whose differences from the baseline are shown.
var judged = []eval.Metric{eval.Objective, overTime, eval.Unscheduled, waited}

// Add adds a comparison: the scenario with each episode's metrics and the differences from the baseline, and a verdict on each result and
// threshold.
func (r *Run) Add(c *eval.Comparison) {
	s := Scenario{
		Name: c.Scenario.Name, About: c.Scenario.About, Objective: c.Scenario.Objective.Name(), Baseline: c.Results[0].Name,
	}
	if c.Observed != nil {
		s.Observed = *c.Observed
	}
	var shown []eval.Metric
	for _, m := range eval.Metrics {
		if !c.Shows(m) {
			continue
		}
		if m.Name == overTime.Name {
			m.Title = eval.Objective.Title + " " + m.Title
		}
		shown = append(shown, m)
		s.Metrics = append(s.Metrics, Metric{Name: m.Name, Title: m.Title, Digits: m.Digits})
	}
	for _, x := range c.Results {
		for _, o := range x.Outcomes {
			e := Episode{Contender: x.Name, Values: map[string]float64{}}
			for _, m := range shown {
				e.Values[m.Name] = m.Of(o)
			}
			s.Episodes = append(s.Episodes, e)
		}
	}
	columns := c.Columns(judged...)
	all, n := eval.Judge(columns...), len(judged)*(len(c.Results)-1)
	if n > 0 && c.Samples() > 1 {
		s.Rule = eval.Words.Rule(c.Samples(), n)
	}
	for k := range columns {
		for i, d := range all[k] {
			if d != nil {
				s.Differences = append(s.Differences, differenceOf(*d, c.Results[i].Name, judged[k]))
			}
		}
	}
	for i, x := range c.Results[1:] {
		v := verdictOn(row{Baseline: c.Results[0], Policy: x, Difference: *all[1][i+1], Left: *all[2][i+1]}, n) // as in judged
		v.Scenario = s.Name
		r.Verdicts = append(r.Verdicts, v)
	}
	for _, v := range c.Verdicts {
		state := Fail
		if v.Pass {
			state = Pass
		}
		r.Verdicts = append(r.Verdicts, Verdict{s.Name, state, fmt.Sprintf("%s (%.4g and %.4g)", v.Threshold, v.Left, v.Right)})
	}
	r.Scenarios = append(r.Scenarios, s)
}

// differenceOf returns the difference of a contender in a metric.
func differenceOf(d eval.Difference, contender string, m eval.Metric) Difference {
	out := Difference{Contender: contender, Metric: m.Name, Mean: d.Mean, Relative: d.Relative}
	if d.Samples > 1 {
		out.Low, out.High = &d.Low, &d.High
	}
	if d.Mark != eval.Unmarked {
		out.P, out.Mark = &d.Adjusted, StateOf(d.Mark)
	}
	return out
}

// row compares a policy with a baseline on one scenario.
type row struct {
	Baseline, Policy eval.Result
	// Difference is the policy's objective over time minus the baseline's, and Left the same for the unscheduled pods.
	Difference, Left eval.Difference
}

// outcome says in a word how the policy of a row does beside the baseline.
type outcome string

// The outcomes. Ahead is better in the objective or in the unscheduled pods and not worse in the other, and behind the contrary.
const (
	ahead     outcome = "ahead"
	behind    outcome = "behind"
	mixed     outcome = "mixed" // better in one, worse in the other
	even      outcome = "level"
	unclear   outcome = "unclear" // eval.Unclear in one, and neither better nor worse in the other
	fewSeeds  outcome = "too few seeds"
	oneSample outcome = "one sample"
)

// outcome returns the row in a word.
func (r row) outcome() outcome {
	has := func(m eval.Mark) bool { return r.Difference.Mark == m || r.Left.Mark == m }
	switch {
	case r.Difference.Samples < 2:
		return oneSample
	case has(eval.Unmarked):
		return fewSeeds
	case has(eval.Lower) && has(eval.Higher):
		return mixed
	case has(eval.Lower):
		return ahead
	case has(eval.Higher):
		return behind
	case has(eval.Unclear):
		return unclear
	}
	return even
}

// says are the states and phrases of outcomes.
var says = map[outcome]struct {
	state  State
	phrase string
}{
	ahead: {Better, "is ahead of"}, behind: {Worse, "is behind"},
	even:      {Level, "is level with"},
	mixed:     {Note, "is better in one and worse in the other than"},
	unclear:   {Unclear, "is not clearly apart from"},
	fewSeeds:  {Note, "was compared on too few seeds with"},
	oneSample: {Note, "was compared on one sample with"},
}

// verdictOn returns the verdict of a row, which was judged together with the given number of comparisons.
func verdictOn(r row, comparisons int) Verdict {
	word := r.outcome()
	text := fmt.Sprintf("%s %s %s: objective over time %.4f against %.4f%s, unscheduled %.1f against %.1f", r.Policy.Name, says[word].phrase,
		r.Baseline.Name,
		r.Policy.Mean(overTime), r.Baseline.Mean(overTime), change(r.Difference), r.Policy.Mean(eval.Unscheduled),
		r.Baseline.Mean(eval.Unscheduled))
	if word == fewSeeds {
		text += fmt.Sprintf("; a verdict takes at least %d seeds, and there are %d", eval.MinSeeds(comparisons), r.Difference.Samples)
	}
	return Verdict{State: says[word].state, Text: text}
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
