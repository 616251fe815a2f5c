// Package headline sums up comparisons in one row each: the best network beside the best policy that is none.
package headline

import (
	"bytes"
	"fmt"
	"io"

	"gnnsched/scheduler/eval"
)

// Row sums up a comparison.
type Row struct {
	Scenario          string
	Baseline, Network eval.Result // those with the lowest objective over time among their kind
	// Difference is the network's objective over time minus the baseline's. Its adjusted p takes all networks
	// of all rows into account, since the best of them was chosen after the fact.
	Difference eval.Difference
	// Left is the difference of the pods that are unscheduled, adjusted in the same way.
	Left    eval.Difference
	Samples int
}

// Headline is the sum of several comparisons.
type Headline struct {
	Rows        []Row
	comparisons int // p values that were adjusted together
}

// Of returns a row for each comparison that has a baseline and a network.
func Of(comparisons []*eval.Comparison) Headline {
	var h Headline
	var p []float64
	var first []int // index of the p of each row's network; that of its unscheduled pods follows
	for _, c := range comparisons {
		baseline, network := best(c, eval.Baseline), best(c, eval.Network)
		if baseline == nil || network == nil {
			continue
		}
		row := Row{Scenario: c.Scenario.Name, Baseline: *baseline, Network: *network, Samples: c.Samples()}
		against := *c
		against.Results = []eval.Result{*baseline}
		for _, r := range c.Results {
			if r.Kind != eval.Network {
				continue
			}
			difference, left := against.Difference(r, overTime), against.Difference(r, eval.Unscheduled)
			if r.Name == network.Name {
				row.Difference, row.Left = difference, left
				first = append(first, len(p))
			}
			p = append(p, difference.P, left.P)
		}
		h.Rows = append(h.Rows, row)
	}
	adjusted := eval.Holm(p)
	for i := range h.Rows {
		h.Rows[i].Difference.Adjusted, h.Rows[i].Left.Adjusted = adjusted[first[i]], adjusted[first[i]+1]
	}
	h.comparisons = len(p)
	return h
}

// overTime is the metric by which policies are ranked.
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

// Verdict returns the row in a word. The network is ahead if it is significantly better in the objective or in
// the unscheduled pods, and not worse in the other.
func (r Row) Verdict() string {
	objective, left := sign(r.Difference, r.Samples), sign(r.Left, r.Samples)
	switch {
	case r.Samples < 2:
		return "one sample"
	case objective*left < 0:
		return "mixed"
	case objective+left < 0:
		return "ahead"
	case objective+left > 0:
		return "behind"
	}
	return "level"
}

// sign returns -1 for a significant improvement, 1 for a significant loss, else 0.
func sign(d eval.Difference, samples int) int {
	switch {
	case samples < 2 || !(d.Adjusted < eval.Level):
		return 0
	case d.Mean < 0:
		return -1
	}
	return 1
}

// WriteMarkdown writes the rows as a table in Markdown.
func (h Headline) WriteMarkdown(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "The best policy without a network and the best network of each scenario, by the mean of the objective over time;\n"+
		"less is better. An arrow leads from the former's mean to the network's. The difference is the network's minus\n"+
		"the other's, with its 95%% interval. p is of Wilcoxon's signed-rank test, adjusted by Holm for %s:\n"+
		"every network on every scenario, in the objective and in the unscheduled pods. Ahead (behind): p < %v, better\n"+
		"(worse) in one of the two and not the contrary in the other. Mixed: better in one, worse in the other.\n\n",
		eval.Count(h.comparisons, "comparison"), eval.Level)
	rows := [][]string{{"scenario", "best without", "best network", "objective", "difference", "95% interval", "adjusted p", "unscheduled", "verdict"}}
	for _, r := range h.Rows {
		rows = append(rows, r.cells())
	}
	if err := eval.Render(&b, rows, true); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (r Row) cells() []string {
	arrow := func(m eval.Metric) string {
		return fmt.Sprintf("%.*f → %.*f", m.Digits, r.Baseline.Mean(m), m.Digits, r.Network.Mean(m))
	}
	row := []string{r.Scenario, r.Baseline.Name, r.Network.Name, arrow(overTime), fmt.Sprintf("%+.*f", overTime.Digits, r.Difference.Mean), "", "", arrow(eval.Unscheduled), r.Verdict()}
	if r.Difference.Relative != nil {
		row[4] += fmt.Sprintf(" (%+.1f%%)", 100**r.Difference.Relative)
	}
	if r.Samples > 1 {
		row[5] = fmt.Sprintf("%+.*f to %+.*f", overTime.Digits, r.Difference.Low, overTime.Digits, r.Difference.High)
		row[6] = eval.Significance(r.Difference.Adjusted)
	}
	return row
}
