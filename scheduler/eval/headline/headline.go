// Package headline sums up comparisons in one row each: the best network beside the best policy that is none.
package headline

import (
	"fmt"
	"io"

	"gnnsched/scheduler/eval"
)

// Row compares a policy with a baseline on one scenario.
type Row struct {
	Scenario         string
	Baseline, Policy eval.Result
	// Difference is the policy's objective over time minus the baseline's, and Left the same for the unscheduled pods. Of judges the
	// differences of all rows together with all networks' differences, because the best network was chosen after the fact.
	Difference, Left eval.Difference
}

// Headline is the sum of several comparisons.
type Headline struct {
	Rows        []Row
	comparisons int // differences that were judged together
}

// Of returns a row for each comparison that has a baseline and a network: the best of each.
func Of(comparisons []*eval.Comparison) (h Headline) {
	var rows []*Row
	var all []*eval.Difference
	for _, c := range comparisons {
		baseline, network := best(c, eval.Baseline), best(c, eval.Network)
		if baseline == nil || network == nil {
			continue
		}
		for _, r := range c.Results {
			if r.Kind != eval.Network {
				continue
			}
			row := compared(c, *baseline, r)
			all = append(all, &row.Difference, &row.Left)
			if r.Name == network.Name {
				rows = append(rows, row)
			}
		}
	}
	eval.Together(all...)
	h.comparisons = len(all)
	for _, r := range rows {
		h.Rows = append(h.Rows, *r)
	}
	return h
}

// compared returns a row that is not judged yet.
func compared(c *eval.Comparison, baseline, r eval.Result) *Row {
	against := eval.Comparison{Seeds: c.Seeds, OneWorkload: c.OneWorkload, Results: []eval.Result{baseline}}
	return &Row{
		Scenario: c.Scenario.Name, Baseline: baseline, Policy: r, Difference: against.Difference(r, overTime),
		Left: against.Difference(r, eval.Unscheduled),
	}
}

// overTime is the metric that ranks policies.
var overTime, _ = eval.FindMetric("meanCost")

// best returns the result of a kind with the lowest objective over time, the first of equals; nil if there is none.
func best(c *eval.Comparison, k eval.Kind) (out *eval.Result) {
	for i, r := range c.Results {
		if r.Kind == k && (out == nil || r.Mean(overTime) < out.Mean(overTime)) {
			out = &c.Results[i]
		}
	}
	return out
}

// Verdict says in a word how the policy of a row does beside the baseline.
type Verdict string

// The verdicts. Ahead is better in the objective or in the unscheduled pods and not worse in the other, and Behind the contrary.
const (
	Ahead   Verdict = "ahead"
	Behind  Verdict = "behind"
	Mixed   Verdict = "mixed" // better in one, worse in the other
	Level   Verdict = "level"
	Unclear Verdict = "unclear" // eval.Unclear in one, and neither better nor worse in the other
	Few     Verdict = "too few seeds"
	One     Verdict = "one sample"
)

// Verdict returns the row in a word.
func (r Row) Verdict() Verdict {
	has := func(m eval.Mark) bool { return r.Difference.Mark == m || r.Left.Mark == m }
	switch {
	case r.Difference.Samples < 2:
		return One
	case has(eval.Unmarked):
		return Few
	case has(eval.Lower) && has(eval.Higher):
		return Mixed
	case has(eval.Lower):
		return Ahead
	case has(eval.Higher):
		return Behind
	case has(eval.Unclear):
		return Unclear
	}
	return Level
}

// WriteMarkdown writes the rows as a table in Markdown.
func (h Headline) WriteMarkdown(w io.Writer) error {
	p := eval.Page{Markdown: true}
	samples := 0
	for _, r := range h.Rows {
		samples = max(samples, r.Difference.Samples)
	}
	p.Printf("The best policy without a network and the best network of each scenario, by the mean of the objective over time;\n"+
		"less is better. An arrow leads from the former's mean to the network's. The difference is the network's minus the other's.\n"+
		"%s\n"+
		"The comparisons are every network on every scenario, in the objective and in the unscheduled pods. Ahead (behind):\n"+
		"better (worse) in one of the two and not the contrary in the other. Mixed: better in one, worse in the other.\n\n",
		eval.Signs.Rule(samples, h.comparisons))
	rows := [][]string{{
		"scenario", "best without", "best network", "objective", "difference", "95% interval", "adjusted p", "unscheduled", "verdict",
	}}
	for _, r := range h.Rows {
		rows = append(rows, r.cells())
	}
	p.Table(rows)
	return p.Write(w)
}

func (r Row) cells() []string {
	arrow := func(m eval.Metric) string {
		return fmt.Sprintf("%.*f → %.*f", m.Digits, r.Baseline.Mean(m), m.Digits, r.Policy.Mean(m))
	}
	d := r.Difference.Cells(overTime.Digits, "difference", "relative", "95% interval", "adjusted p")
	if d[1] != "" {
		d[0] += " (" + d[1] + ")"
	}
	return []string{
		r.Scenario, r.Baseline.Name, r.Policy.Name, arrow(overTime), d[0], d[2], d[3], arrow(eval.Unscheduled), string(r.Verdict()),
	}
}
