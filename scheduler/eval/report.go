package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"gnnsched/scheduler/sim"
)

// compared are the metrics whose differences are reported, with their intervals.
var compared = []string{"cpuStd", "imbalance", "unscheduled", "nodesInUse"}

// WriteTable writes the comparison for a terminal: the means, and the differences from the
// baseline.
func (c *Comparison) WriteTable(w io.Writer) error {
	return c.write(w, "%s: %s.\n")
}

// WriteMarkdown writes what WriteTable writes as Markdown.
func (c *Comparison) WriteMarkdown(w io.Writer) error {
	return c.write(w, "### %s\n\n%s.\n", tablewriter.WithRenderer(renderer.NewMarkdown()))
}

func (c *Comparison) write(w io.Writer, title string, style ...tablewriter.Option) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, title, c.Scenario.Name, c.Scenario.About)
	fmt.Fprintf(&b, "\nMeans over %s, less is better:\n\n", c.seeds())
	if err := render(&b, c.means(), style); err != nil {
		return err
	}
	if len(c.Results) > 1 {
		fmt.Fprintf(&b, "\nDifference from %s on the same %s:\n\n", c.Results[0].Name, c.estimate())
		if err := render(&b, c.differences(), style); err != nil {
			return err
		}
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

// render writes rows, the first of which is the header, as a table.
func render(w io.Writer, rows [][]string, style []tablewriter.Option) error {
	align := slices.Repeat([]tw.Align{tw.AlignRight}, len(rows[0]))
	align[0] = tw.AlignLeft
	cell := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Alignment:  tw.CellAlignment{Global: tw.AlignRight, PerColumn: align},
	}
	t := tablewriter.NewTable(w, append([]tablewriter.Option{tablewriter.WithConfig(tablewriter.Config{Header: cell, Row: cell})}, style...)...)
	t.Header(rows[0])
	if err := errors.Join(t.Bulk(rows[1:]), t.Render()); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

func (c *Comparison) means() [][]string {
	head := []string{"policy"}
	for _, m := range Metrics {
		head = append(head, m.Title)
	}
	rows := [][]string{head}
	for _, r := range c.Results {
		row := []string{r.Name}
		for _, m := range Metrics {
			row = append(row, strconv.FormatFloat(r.Mean(m), 'f', m.Digits, 64))
		}
		rows = append(rows, row)
	}
	return rows
}

func (c *Comparison) differences() [][]string {
	head := []string{"policy"}
	for _, name := range compared {
		head = append(head, metric(name).Title)
	}
	rows := [][]string{head}
	for _, r := range c.Results[1:] {
		row := []string{r.Name}
		for _, name := range compared {
			m := metric(name)
			row = append(row, c.Difference(r, m).format(m.Digits, len(c.Seeds)))
		}
		rows = append(rows, row)
	}
	return rows
}

func (c *Comparison) seeds() string {
	if n := len(c.Seeds); n > 1 {
		return fmt.Sprintf("%d paired seeds (%d to %d)", n, c.Seeds[0], c.Seeds[n-1])
	}
	return fmt.Sprintf("seed %d alone", c.Seeds[0])
}

func (c *Comparison) estimate() string {
	if len(c.Seeds) > 1 {
		return "seeds, mean and 95% bootstrap interval"
	}
	return "seed"
}

// format is the interval for a table. One seed has none.
func (v Interval) format(digits, seeds int) string {
	if seeds < 2 {
		return fmt.Sprintf("%+.*f", digits, v.Mean)
	}
	return fmt.Sprintf("%+.*f [%+.*f, %+.*f]", digits, v.Mean, digits, v.Low, digits, v.High)
}

func metric(name string) Metric {
	for _, m := range Metrics {
		if m.Name == name {
			return m
		}
	}
	panic("eval: no metric " + name)
}

type jsonComparison struct {
	Scenario string       `json:"scenario"`
	About    string       `json:"about"`
	Seeds    []uint64     `json:"seeds"`
	Baseline string       `json:"baseline"`
	Policies []jsonResult `json:"policies"`
}

type jsonResult struct {
	Name       string              `json:"name"`
	Mean       map[string]float64  `json:"mean"`
	Difference map[string]Interval `json:"difference,omitempty"` // from the baseline
	Outcomes   []sim.Outcome       `json:"outcomes"`             // by seed
}

// MarshalJSON implements json.Marshaler: every outcome, the means, and the differences from
// the baseline in every metric.
func (c *Comparison) MarshalJSON() ([]byte, error) {
	out := jsonComparison{Scenario: c.Scenario.Name, About: c.Scenario.About, Seeds: c.Seeds, Baseline: c.Results[0].Name}
	for i, r := range c.Results {
		j := jsonResult{Name: r.Name, Mean: map[string]float64{}, Outcomes: r.Outcomes}
		if i > 0 {
			j.Difference = map[string]Interval{}
		}
		for _, m := range Metrics {
			j.Mean[m.Name] = r.Mean(m)
			if i > 0 {
				j.Difference[m.Name] = c.Difference(r, m)
			}
		}
		out.Policies = append(out.Policies, j)
	}
	return json.Marshal(out)
}
