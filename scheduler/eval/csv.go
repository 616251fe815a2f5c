package eval

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"

	"gnnsched/scheduler/sim"
)

// WriteCSV writes the outcomes of several comparisons as one CSV table with a header and a row for each scenario, policy and seed. Figures
// are not rounded.
func WriteCSV(w io.Writer, comparisons []*Comparison) error {
	metrics := Metrics
	for _, c := range comparisons {
		if all := c.metrics(); len(all) > len(metrics) {
			metrics = all
		}
	}
	rows := [][]string{slices.Concat([]string{"scenario", "policy", "seed"}, MetricNames(metrics), []string{"arrived", "placed", "nodes"})}
	for _, c := range comparisons {
		rows = append(rows, c.Rows([]string{c.Scenario.Name}, func(o sim.Outcome) [][]string {
			return [][]string{append(figures(o, metrics...), strconv.Itoa(o.Arrived), strconv.Itoa(o.Placed), strconv.Itoa(o.Nodes))}
		})...)
	}
	return WriteRows(w, rows)
}

// Rows returns rows for each policy and seed: labels, the policy's name, the seed, and the cells of the outcome.
func (c *Comparison) Rows(labels []string, cells func(sim.Outcome) [][]string) (rows [][]string) {
	for _, r := range c.Results {
		for i, o := range r.Outcomes {
			for _, row := range cells(o) {
				rows = append(rows, slices.Concat(labels, []string{r.Name, strconv.FormatUint(c.Seeds[i], 10)}, row))
			}
		}
	}
	return rows
}

// figures returns metrics of an outcome with all digits.
func figures(o sim.Outcome, metrics ...Metric) (out []string) {
	for _, m := range metrics {
		out = append(out, Exact(m.Of(o)))
	}
	return out
}

// Exact writes a number with all digits.
func Exact(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// WriteRows writes a CSV.
func WriteRows(w io.Writer, rows [][]string) error {
	if err := csv.NewWriter(w).WriteAll(rows); err != nil {
		return fmt.Errorf("write the CSV: %w", err)
	}
	return nil
}
