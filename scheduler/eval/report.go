package eval

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gnnsched/internal/each"
	"gnnsched/internal/table"
)

// WriteTable writes the comparison for a terminal: the means of every metric, and the differences
// from the baseline in most of them. WriteSummary is the short form.
func (c *Comparison) WriteTable(w io.Writer) error { return c.write(w, false) }

// WriteMarkdown writes the tables of WriteTable as Markdown.
func (c *Comparison) WriteMarkdown(w io.Writer) error { return c.write(w, true) }

func (c *Comparison) write(w io.Writer, markdown bool) error {
	metrics := c.judged()
	judged := Judge(c.Columns(metrics...)...)
	p := c.page(markdown, metrics, judged)
	p.Printf(":\n\n")
	shown := slices.DeleteFunc(c.metrics(), func(m Metric) bool { return !c.Shows(m) })
	p.Table(c.Table(c.Means(shown...)...))
	if len(c.Results) > 1 {
		rows := c.differences(metrics, judged)
		p.Printf("\nDifference from %s on the same %s\n\n", c.Results[0].Name, c.estimate(len(rows)-1))
		p.Table(rows)
	}
	p.Printf("\n")
	return p.Write(w)
}

// page begins a report: the thresholds' verdicts and the answer for the first of the metrics, then what was played.
func (c *Comparison) page(markdown bool, metrics []Metric, judged [][]*Difference) *Page {
	p := &Page{Markdown: markdown}
	lines := each.Map(c.Verdicts, Verdict.String)
	if len(c.Results) > 1 {
		lines = append(lines, c.answer(metrics[0], judged[0]))
	}
	p.Title(c.Scenario.Name, c.Scenario.About, lines...)
	p.Printf("\n\nMeans over %s, less is better", c.seedsText())
	if whereFilling(c) {
		p.Printf(" (of allocations, more)")
	}
	return p
}

// answer says in a line how the policies differ from the baseline in a metric, grouped by what the differences are worth.
func (c *Comparison) answer(m Metric, all []*Difference) string {
	if m.Name == OverTime().Name {
		m = OverTime()
	}
	words := [...]string{"too few seeds to judge", "not told apart", "unclear", "below", "above"}
	groups := make([][]string, len(words))
	for i, d := range all {
		if d == nil {
			continue
		}
		amount := fmt.Sprintf("%+.*f", m.Digits, d.Mean)
		if d.Relative != nil {
			amount = fmt.Sprintf("%+.1f%%", 100**d.Relative)
		}
		groups[d.Mark] = append(groups[d.Mark], c.Results[i].Name+" "+amount)
	}
	var parts []string
	for _, mark := range [...]Mark{Lower, Higher, Unclear, None, Unmarked} {
		if names := groups[mark]; len(names) > 0 {
			parts = append(parts, fmt.Sprintf("%s (%s)", strings.Join(names, ", "), words[mark]))
		}
	}
	return fmt.Sprintf("%s, %s against %s: %s.", c.Scenario.Name, m.Title, c.Results[0].Name, strings.Join(parts, "; "))
}

// OverTime is the metric that summaries and pages judge by: the objective over time, as who is ahead at the end says little.
func OverTime() Metric {
	m := metric("meanCost")
	m.Title = Objective.Title + " " + m.Title
	return m
}

// WriteSummary writes the comparison for a terminal, a row for each policy: the means of the objective over time, unscheduled and waited,
// and the objective's difference from the baseline; with waiting in the objective that and imbalance. Without an objective it has the
// metrics of Filling.
func (c *Comparison) WriteSummary(w io.Writer) error {
	if len(c.Scenario.Objective) == 0 && whereFilling(c) {
		return c.WriteMetrics(w, slices.DeleteFunc(slices.Clone(Filling), func(m Metric) bool { return !c.Shows(m) }), false)
	}
	metrics := []Metric{OverTime(), Unscheduled, metric("waited")}
	if c.Scenario.Objective.Waiting() > 0 {
		metrics = []Metric{OverTime(), metric("waiting"), metric("imbalance"), Unscheduled}
	}
	judged := Judge(c.Column(metrics[0]))
	p := c.page(false, metrics, judged)
	p.Printf(".%s\n\n", c.legend())
	cells := c.Means(metrics...)
	if len(c.Results) > 1 {
		cells = append(cells, differenceCells(judged[0], metrics[0].Digits, difference, interval, relative, "significant")...)
	}
	p.Table(c.Table(cells...))
	p.Printf("\n")
	return p.Write(w)
}

// legend explains the columns of the difference.
func (c *Comparison) legend() string {
	if len(c.Results) < 2 {
		return ""
	}
	text := " Difference from " + c.Results[0].Name + " in the objective over time"
	if c.Samples() < 2 {
		return text + "."
	}
	return text + " on the same seeds.\n" + Words.Rule(c.Samples(), len(c.Results)-1)
}

// ParseMetrics reads the names of metrics, separated by commas.
func ParseMetrics(text string) (out []Metric, err error) {
	for name := range strings.SplitSeq(text, ",") {
		m, err := FindMetric(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// WriteMetrics writes the comparison as one table with a row for each policy: for each of the metrics the mean, and the
// difference from the baseline with its interval.
func (c *Comparison) WriteMetrics(w io.Writer, metrics []Metric, markdown bool) error {
	judged := Judge(c.Columns(metrics...)...)
	p := c.page(markdown, metrics, judged)
	several := len(c.Results) > 1
	switch {
	case several && c.Samples() > 1:
		p.Printf(", and differences from %s with 95%% intervals.\n%s\n\n", c.Results[0].Name,
			signs.Rule(c.Samples(), len(metrics)*(len(c.Results)-1)))
	case several:
		p.Printf(", and differences from %s:\n\n", c.Results[0].Name)
	default:
		p.Printf(":\n\n")
	}
	var cells []Cells
	for k, all := range judged {
		if cells = append(cells, c.Means(metrics[k])...); several {
			cells = append(cells, Cells{difference, func(i int) string { return all[i].Cell(metrics[k].Digits) }})
		}
	}
	p.Table(c.Table(cells...))
	p.Printf("\n")
	return p.Write(w)
}

// judged returns the metrics of WriteTable's second table.
func (c *Comparison) judged() (metrics []Metric) {
	for _, name := range compared {
		if m := metric(name); c.Shows(m) {
			metrics = append(metrics, m)
		}
	}
	return metrics
}

// differences returns the rows of WriteTable's second table.
func (c *Comparison) differences(metrics []Metric, judged [][]*Difference) [][]string {
	titles := []string{difference, interval, relative, adjusted}
	rows := [][]string{append([]string{"metric", "policy"}, titles...)}
	for k, all := range judged {
		for i, r := range c.Results[1:] {
			rows = append(rows, append([]string{metrics[k].Title, r.Name}, all[i+1].Cells(metrics[k].Digits, titles...)...))
		}
	}
	return rows
}

// seedsText names the episodes.
func (c *Comparison) seedsText() string {
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
		return "seeds.\n" + signs.Rule(c.Samples(), comparisons)
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

// Page collects the text and the tables of a report.
type Page struct {
	Markdown bool // else for a terminal
	text     bytes.Buffer
	err      error
}

// Title writes the answers, then a name and a sentence about it; in Markdown the name is a heading above them.
func (p *Page) Title(name, about string, answers ...string) {
	if p.Markdown {
		p.Printf("### %s\n\n", name)
	}
	for _, line := range answers {
		p.Printf("%s\n\n", line)
	}
	if !p.Markdown {
		p.Printf("%s: ", name)
	}
	p.Printf("%s.", about)
}

// Printf writes text.
func (p *Page) Printf(format string, a ...any) { fmt.Fprintf(&p.text, format, a...) }

// Table writes a table.
func (p *Page) Table(rows table.Table) {
	if p.Markdown {
		p.err = errors.Join(p.err, rows.Markdown(&p.text))
	} else {
		p.err = errors.Join(p.err, rows.Framed(&p.text, 0))
	}
}

// Write writes the page, unless a table failed.
func (p *Page) Write(w io.Writer) error {
	if p.err != nil {
		return p.err
	}
	_, err := w.Write(p.text.Bytes())
	return err
}
