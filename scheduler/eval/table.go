package eval

import (
	"fmt"
	"slices"
	"strconv"

	"gnnsched/scheduler/sim"
)

// Collect returns the comparison of trials that were played elsewhere, on the seeds that all of their policies have.
func Collect[T any](trials []T, of func(T) (policy string, seed uint64, o sim.Outcome)) *Comparison {
	c := &Comparison{}
	var policies []string
	outcomes := map[string]map[uint64]sim.Outcome{}
	for _, t := range trials {
		policy, seed, o := of(t)
		if outcomes[policy] == nil {
			policies, outcomes[policy] = append(policies, policy), map[uint64]sim.Outcome{}
		}
		if outcomes[policy][seed] = o; !slices.Contains(c.Seeds, seed) {
			c.Seeds = append(c.Seeds, seed)
		}
	}
	for _, all := range outcomes {
		c.Seeds = slices.DeleteFunc(c.Seeds, func(seed uint64) bool { _, played := all[seed]; return !played })
	}
	for _, policy := range policies {
		r := Result{Name: policy}
		for _, seed := range c.Seeds {
			r.Outcomes = append(r.Outcomes, outcomes[policy][seed])
		}
		c.Results = append(c.Results, r)
	}
	return c
}

// Column is a metric of a comparison. A table may have columns of several comparisons with the same contenders and seeds, such as at
// several loads.
type Column struct {
	*Comparison
	Metric
	More bool // more is better
}

// Mean returns the mean of result i.
func (c Column) Mean(i int) float64 { return c.Results[i].Mean(c.Metric) }

// Cell returns the mean of result i for a table.
func (c Column) Cell(i int) string { return strconv.FormatFloat(c.Mean(i), 'f', c.Digits, 64) }

// Judge returns the differences of all results from the baseline, by column and result, judged together. The baseline has none.
func Judge(columns ...Column) [][]*Difference {
	out := make([][]*Difference, len(columns))
	var all []*Difference
	for k, c := range columns {
		out[k] = make([]*Difference, len(c.Results))
		for i, r := range c.Results {
			if i != c.Baseline && c.Baseline >= 0 {
				out[k][i] = new(c.Difference(r, c.Metric))
				all = append(all, out[k][i])
			}
		}
	}
	together(all...)
	return out
}

// Column returns the column of a metric.
func (c *Comparison) Column(m Metric) Column { return Column{Comparison: c, Metric: m} }

// Columns returns a column for each metric.
func (c *Comparison) Columns(metrics ...Metric) (out []Column) {
	for _, m := range metrics {
		out = append(out, c.Column(m))
	}
	return out
}

// Cells are the cells of a column of a table, by result.
type Cells struct {
	Title string
	Of    func(result int) string
}

// Table returns a header and a row for each result.
func (c *Comparison) Table(columns ...Cells) [][]string {
	rows := [][]string{{"policy"}}
	for _, r := range c.Results {
		rows = append(rows, []string{r.Name})
	}
	for _, x := range columns {
		rows[0] = append(rows[0], x.Title)
		for i := range c.Results {
			rows[i+1] = append(rows[i+1], x.Of(i))
		}
	}
	return rows
}

// Means returns the cells of metrics.
func (c *Comparison) Means(metrics ...Metric) (out []Cells) {
	for _, x := range c.Columns(metrics...) {
		out = append(out, Cells{x.Title, x.Cell})
	}
	return out
}

// Titles of the cells of a difference.
const (
	difference = "difference"
	interval   = "95% interval"
	relative   = "relative"
	adjusted   = "adjusted p"
)

// differenceCells returns the titled cells of differences, which are by result.
func differenceCells(all []*Difference, digits int, titles ...string) (out []Cells) {
	for _, title := range titles {
		out = append(out, Cells{title, func(i int) string { return all[i].Cells(digits, title)[0] }})
	}
	return out
}

// Cells returns the cells with some titles: difference, 95% interval, relative, adjusted p, and significant, the mark in a word. With one
// sample some are empty, and without a difference all are.
func (d *Difference) Cells(digits int, titles ...string) []string {
	of := map[string]string{}
	if d != nil {
		of[difference], of["significant"] = fmt.Sprintf("%+.*f", digits, d.Mean), d.Mark.String()
		if d.Samples > 1 {
			of[interval], of[adjusted] = fmt.Sprintf("%+.*f to %+.*f", digits, d.Low, digits, d.High), d.Chance()
		}
		if d.Relative != nil {
			of[relative] = fmt.Sprintf("%+.1f%%", 100**d.Relative)
		}
	}
	var out []string
	for _, t := range titles {
		out = append(out, of[t])
	}
	return out
}
