package eval

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// WriteSummary writes the comparison for a terminal, a row for each policy: the means of
// objective, unscheduled and waited, and the objective's difference from the baseline.
func (c *Comparison) WriteSummary(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: %s.\n\nMeans over %s, less is better.%s\n\n", c.Scenario.Name, c.Scenario.About, c.seeds(), c.legend())
	if err := Render(&b, c.summary(), false); err != nil {
		return err
	}
	c.writeVerdicts(&b)
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

// legend explains the columns of the difference.
func (c *Comparison) legend() string {
	if len(c.Results) < 2 {
		return ""
	}
	text := " Difference from " + c.Results[0].Name + " in the objective"
	if c.Samples() < 2 {
		return text + "."
	}
	return text + " on the same seeds.\n" + Words.Rule(c.Samples(), len(c.Results)-1)
}

// summary are the rows of WriteSummary's table.
func (c *Comparison) summary() [][]string {
	head := []string{"policy"}
	metrics := []Metric{Objective, Unscheduled, metric("waited")}
	for _, m := range metrics {
		head = append(head, m.Title)
	}
	several := len(c.Results) > 1
	if several {
		head = append(head, "difference", "95% interval", "relative", "significant")
	}
	rows := [][]string{head}
	differences := c.Differences([]Metric{Objective})[0]
	for i, r := range c.Results {
		row := []string{r.Name}
		for _, m := range metrics {
			row = append(row, strconv.FormatFloat(r.Mean(m), 'f', m.Digits, 64))
		}
		switch {
		case i > 0:
			d := differences[i-1]
			cells := d.cells(Objective.Digits, c.Samples())
			row = append(row, append(cells[:3], d.Mark.String())...)
		case several:
			row = append(row, "", "", "", "")
		}
		rows = append(rows, row)
	}
	return rows
}
