package eval

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// WriteTable writes the comparison for a terminal: the means of every metric, and the differences
// from the baseline in most of them. WriteSummary is the short form.
func (c *Comparison) WriteTable(w io.Writer) error {
	return c.write(w, "%s: %s.\n", false)
}

// WriteMarkdown writes the tables of WriteTable as Markdown.
func (c *Comparison) WriteMarkdown(w io.Writer) error {
	return c.write(w, "### %s\n\n%s.\n", true)
}

func (c *Comparison) write(w io.Writer, title string, markdown bool) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, title, c.Scenario.Name, c.Scenario.About)
	fmt.Fprintf(&b, "\nMeans over %s, less is better:\n\n", c.seeds())
	if err := Render(&b, c.means(), markdown); err != nil {
		return err
	}
	if len(c.Results) > 1 {
		rows := c.differences()
		fmt.Fprintf(&b, "\nDifference from %s on the same %s\n\n", c.Results[0].Name, c.estimate(len(rows)-1))
		if err := Render(&b, rows, markdown); err != nil {
			return err
		}
	}
	c.writeVerdicts(&b)
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

func (c *Comparison) writeVerdicts(b *bytes.Buffer) {
	for _, v := range c.Verdicts {
		fmt.Fprintf(b, "\n%s\n", v)
	}
}

// Render writes rows as a table for a terminal, or as Markdown. The first row is the header. The first column, "policy" and "class" are
// aligned to the left, the others to the right.
func Render(w io.Writer, rows [][]string, markdown bool) error {
	align := slices.Repeat([]tw.Align{tw.AlignRight}, len(rows[0]))
	for i, title := range rows[0] {
		if i == 0 || title == "policy" || title == "class" {
			align[i] = tw.AlignLeft
		}
	}
	cell := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Alignment:  tw.CellAlignment{Global: tw.AlignRight, PerColumn: align},
	}
	options := []tablewriter.Option{tablewriter.WithConfig(tablewriter.Config{Header: cell, Row: cell})}
	if markdown {
		options = append(options, tablewriter.WithRenderer(renderer.NewMarkdown()))
	}
	t := tablewriter.NewTable(w, options...)
	t.Header(rows[0])
	if err := errors.Join(t.Bulk(rows[1:]), t.Render()); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

func (c *Comparison) means() [][]string {
	rows := [][]string{{"policy"}}
	for _, r := range c.Results {
		rows = append(rows, []string{r.Name})
	}
	for _, m := range Metrics {
		if !c.Shows(m) {
			continue
		}
		rows[0] = append(rows[0], m.Title)
		for i, r := range c.Results {
			rows[i+1] = append(rows[i+1], strconv.FormatFloat(r.Mean(m), 'f', m.Digits, 64))
		}
	}
	return rows
}

func (c *Comparison) differences() [][]string {
	var metrics []Metric
	for _, name := range compared {
		if m := metric(name); c.Shows(m) {
			metrics = append(metrics, m)
		}
	}
	rows := [][]string{{"metric", "policy", "difference", "95% interval", "relative", "adjusted p"}}
	for i, all := range c.Differences(metrics) {
		for k, d := range all {
			rows = append(rows, append([]string{metrics[i].Title, c.Results[k+1].Name}, d.cells(metrics[i].Digits, c.Samples())...))
		}
	}
	return rows
}

// seeds names the episodes.
func (c *Comparison) seeds() string {
	n := len(c.Seeds)
	switch {
	case n > 1 && c.OneWorkload:
		return fmt.Sprintf("the seeds %d to %d of one workload (the same pods arrive on each: one sample, without intervals)",
			c.Seeds[0], c.Seeds[n-1])
	case n > 1:
		return fmt.Sprintf("%d paired seeds (%d to %d)", n, c.Seeds[0], c.Seeds[n-1])
	}
	return fmt.Sprintf("seed %d alone", c.Seeds[0])
}

func (c *Comparison) estimate(comparisons int) string {
	if c.Samples() > 1 {
		return "seeds.\n" + Signs.Rule(c.Samples(), comparisons)
	}
	if len(c.Seeds) > 1 {
		return "seeds:"
	}
	return "seed:"
}

// count returns a number with its noun, in the plural unless it is 1.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// cells returns four columns: difference, interval, relative difference and adjusted p. With one sample,
// interval and p are empty.
func (d Difference) cells(digits, samples int) []string {
	cells := []string{fmt.Sprintf("%+.*f", digits, d.Mean), "", "", ""}
	if samples > 1 {
		cells[1] = fmt.Sprintf("%+.*f to %+.*f", digits, d.Low, digits, d.High)
		cells[3] = d.Chance()
	}
	if d.Relative != nil {
		cells[2] = fmt.Sprintf("%+.1f%%", 100**d.Relative)
	}
	return cells
}
