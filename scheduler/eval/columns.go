package eval

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"gnnsched/internal/choice"
)

// ParseMetrics reads the names of metrics, separated by commas.
func ParseMetrics(text string) (out []Metric, err error) {
	for name := range strings.SplitSeq(text, ",") {
		m, known := FindMetric(strings.TrimSpace(name))
		if !known {
			return nil, choice.Unknown("metric", strings.TrimSpace(name), metricNames())
		}
		out = append(out, m)
	}
	return out, nil
}

// WriteMetrics writes the comparison as one table with a row for each policy: for each of the metrics the mean, and the
// difference from the baseline with its interval.
func (c *Comparison) WriteMetrics(w io.Writer, metrics []Metric, markdown bool) error {
	var b bytes.Buffer
	title := "%s: %s.\n"
	if markdown {
		title = "### %s\n\n%s.\n"
	}
	fmt.Fprintf(&b, title, c.Scenario.Name, c.Scenario.About)
	fmt.Fprintf(&b, "\nMeans over %s, less is better", c.seeds())
	switch others := len(c.Results) - 1; {
	case others > 0 && c.Samples() > 1:
		fmt.Fprintf(&b, ", and differences from %s with 95%% intervals.\n%s\n\n", c.Results[0].Name, Signs.Rule(c.Samples(), len(metrics)*others))
	case others > 0:
		fmt.Fprintf(&b, ", and differences from %s:\n\n", c.Results[0].Name)
	default:
		b.WriteString(":\n\n")
	}
	if err := Render(&b, c.columns(metrics), markdown); err != nil {
		return err
	}
	c.writeVerdicts(&b)
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

// columns returns the rows of WriteMetrics.
func (c *Comparison) columns(metrics []Metric) [][]string {
	rows := [][]string{{"policy"}}
	for _, r := range c.Results {
		rows = append(rows, []string{r.Name})
	}
	several := len(c.Results) > 1
	for k, all := range c.Differences(metrics) {
		m := metrics[k]
		if rows[0] = append(rows[0], m.Title); several {
			rows[0] = append(rows[0], "difference")
		}
		for i, r := range c.Results {
			row := append(rows[i+1], strconv.FormatFloat(r.Mean(m), 'f', m.Digits, 64))
			switch {
			case i > 0:
				row = append(row, all[i-1].Cell(m.Digits))
			case several:
				row = append(row, "")
			}
			rows[i+1] = row
		}
	}
	return rows
}
