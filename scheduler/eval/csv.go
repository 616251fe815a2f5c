package eval

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
)

// WriteCSV writes the outcomes of several comparisons as one CSV table with a header and a row for each scenario, policy and seed. Figures
// are not rounded.
func WriteCSV(w io.Writer, comparisons []*Comparison) error {
	out := csv.NewWriter(w)
	head := []string{"scenario", "policy", "seed"}
	for _, m := range Metrics {
		head = append(head, m.Name)
	}
	rows := [][]string{append(head, "arrived", "placed", "nodes")}
	for _, c := range comparisons {
		for _, r := range c.Results {
			for i, o := range r.Outcomes {
				row := []string{c.Scenario.Name, r.Name, strconv.FormatUint(c.Seeds[i], 10)}
				for _, m := range Metrics {
					row = append(row, strconv.FormatFloat(m.Of(o), 'g', -1, 64))
				}
				rows = append(rows, append(row, strconv.Itoa(o.Arrived), strconv.Itoa(o.Placed), strconv.Itoa(o.Nodes)))
			}
		}
	}
	if err := out.WriteAll(rows); err != nil {
		return fmt.Errorf("write the CSV: %w", err)
	}
	return nil
}
