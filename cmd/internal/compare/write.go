package compare

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"gnnsched/internal/choice"
	"gnnsched/internal/cli"
	"gnnsched/scheduler/eval"
)

var formats = map[string]func(io.Writer, result) error{
	"table": writeTable, "csv": writeCSV, "json": func(w io.Writer, r result) error { return cli.JSON(w, r) },
}

func writeCSV(w io.Writer, r result) error {
	head := []string{"name", "pods", "wait_p95_s", "unscheduled", "never_ran", "preempted"}
	for _, f := range figures {
		head = append(head, f.name, f.name+"_difference", f.name+"_low", f.name+"_high")
	}
	lines := [][]string{head}
	for _, x := range r.Rows {
		line := []string{x.Name, strconv.Itoa(x.Pods), eval.Exact(x.P95), count(x.Unscheduled), count(x.NeverRan), count(x.Preempted)}
		for _, f := range figures {
			line = append(line, eval.Exact(x.Figures[f.name]), "", "", "")
			if d, has := x.Differences[f.name]; has {
				of := line[len(line)-3:]
				if of[0] = eval.Exact(d.Mean); d.Low != nil {
					of[1], of[2] = eval.Exact(*d.Low), eval.Exact(*d.High)
				}
			}
		}
		lines = append(lines, line)
	}
	return eval.WriteRows(w, lines)
}

// shown returns the figures that the table has.
func (r result) shown() []figure {
	if r.priced {
		return figures
	}
	return slices.DeleteFunc(slices.Clone(figures), func(f figure) bool { return f.name == priceFigure })
}

// accuracy describes the difference of the simulated present profile from the real placements.
func (r result) accuracy() string {
	present := r.Rows[r.baseline()]
	if r.Unrecorded != "" {
		return fmt.Sprintf("How far the simulated %s is from what really happened is not known: %s.", present.Name, r.Unrecorded)
	}
	return fmt.Sprintf("How far the simulated %s is from what really happened: %s", present.Name, r.list(present.Differences))
}

// writeTable writes the verdicts, then the figures, in lines that fit w.
func writeTable(w io.Writer, r result) error {
	p := printer{width: cli.Columns(w)}
	for _, v := range r.Verdicts {
		p.say("", v.Text+".")
	}
	if len(r.Verdicts) == 0 || r.Unrecorded != "" {
		p.say("", r.accuracy())
	}
	p.b.WriteByte('\n')
	seeds := fmt.Sprintf("the seeds %d to %d", r.Seeds[0], r.Seeds[len(r.Seeds)-1])
	p.say("", fmt.Sprintf("%s to %s, %v; cost is %s. Simulated are all but %s, as means over %s.", r.From.Format(time.RFC3339),
		r.To.Format(time.RFC3339), r.To.Sub(r.From).Round(time.Second), r.Objective, reality, seeds))
	if err := p.table(r.figures()); err != nil {
		return err
	}
	if err := r.writeDifferences(&p); err != nil {
		return err
	}
	p.b.WriteString("\nThe replay lacks\n")
	for _, l := range r.Lacks {
		p.say("  ", fmt.Sprintf("%s (%d pods)", l.What, l.Pods))
	}
	for _, note := range r.notes() {
		p.say("", fmt.Sprintf("note: %q", note))
	}
	_, err := w.Write(p.b.Bytes())
	return err
}

// writeDifferences writes the differences of the simulated present profile from the real placements, and of the others from the present
// profile.
func (r result) writeDifferences(p *printer) error {
	present, rows := r.Rows[r.baseline()].Name, r.Rows[1:]
	if len(rows) == 0 {
		return nil
	}
	text := fmt.Sprintf("Differences from the simulated %s, with 95 %% intervals where there are enough independent stretches of time.",
		present)
	if r.Unrecorded == "" {
		text = fmt.Sprintf("%s The column %s has its distance from what really happened.", text, present)
	}
	p.b.WriteByte('\n')
	p.say("", text)
	p.say("", fmt.Sprintf(rule, "A * marks", present, "a ? marks"))
	lines := [][]string{append([]string{""}, choice.Names(rows, func(x row) string { return x.Name })...)}
	for _, f := range r.shown() {
		line := []string{f.title}
		for _, x := range rows {
			d := x.Differences[f.name]
			cell := d.text(f)
			if x.Name != present {
				cell += r.mark(d, f).Sign()
			}
			line = append(line, cell)
		}
		lines = append(lines, line)
	}
	return p.table(lines)
}

// notes returns the notes and those about single rows.
func (r result) notes() []string {
	out := r.Notes
	for _, x := range r.Rows {
		if x.Fallbacks > 0 {
			out = append(out, fmt.Sprintf("%s: upstream's scores decided %d times, because the profile failed", x.Name, x.Fallbacks))
		}
		if x.Refused > 0 {
			out = append(out, fmt.Sprintf("%s: %d pods are left out, because a plugin failed on them", x.Name, x.Refused))
		}
	}
	return out
}

// figures returns a table with a row for each figure and a column for each row of the result.
func (r result) figures() [][]string {
	line := func(title string, of func(row) string) []string {
		out := []string{title}
		for _, x := range r.Rows {
			out = append(out, of(x))
		}
		return out
	}
	lines := [][]string{line("", func(x row) string { return x.Name })}
	for k, f := range r.shown() {
		lines = append(lines, line(f.title, func(x row) string { return fmt.Sprintf("%.*f", f.digits, x.Figures[f.name]) }))
		if k == 0 {
			lines = append(lines, line("p95", func(x row) string { return fmt.Sprintf("%.*f", f.digits, x.P95) }))
		}
	}
	return append(lines, line("unscheduled", func(x row) string { return count(x.Unscheduled) }),
		line("never ran", func(x row) string { return count(x.NeverRan) }), line("preempted", func(x row) string { return count(x.Preempted) }))
}

// list renders the differences of a row.
func (r result) list(d map[string]difference) string {
	var out []string
	for _, f := range r.shown() {
		out = append(out, f.title+" "+d[f.name].text(f))
	}
	return strings.Join(out, ", ")
}

// count writes a mean of counts, which is mostly whole.
func count(n float64) string { return strconv.FormatFloat(math.Round(10*n)/10, 'f', -1, 64) }

// text renders a difference with its interval, if there is one.
func (d difference) text(f figure) string {
	if d.Low == nil {
		return fmt.Sprintf("%+.*f", f.digits, d.Mean)
	}
	return d.interval().Text(f.digits)
}

// interval returns a difference that has an interval.
func (d difference) interval() eval.Interval {
	return eval.Interval{Mean: d.Mean, Low: *d.Low, High: *d.High}
}

// printer collects text whose lines have at most width columns, as far as words and single columns of tables allow.
type printer struct {
	b     bytes.Buffer
	width int
}

// say writes a paragraph behind an indent. Its spaces at the beginning add to the indent.
func (p *printer) say(indent, text string) {
	const hyphen, whole = "-", "\u2011" // Wordwrap would tear a number from its sign
	words := strings.TrimLeft(text, " ")
	indent += text[:len(text)-len(words)]
	wrapped := ansi.Wordwrap(strings.ReplaceAll(words, hyphen, whole), max(p.width-len(indent)-2, 20), "")
	for i, line := range strings.Split(strings.ReplaceAll(wrapped, whole, hyphen), "\n") {
		if i > 0 {
			line = "  " + strings.TrimLeft(line, " ")
		}
		p.b.WriteString(indent + line + "\n")
	}
}

// table writes a table whose first column has the titles of the rows. If it is too wide, it becomes several ones with the same
// titles.
func (p *printer) table(lines [][]string) error {
	const frame = 3 // columns between two cells
	wide := func(column int) int {
		most := 0
		for _, l := range lines {
			most = max(most, utf8.RuneCountInString(l[column]))
		}
		return most + frame
	}
	for from := 1; from < len(lines[0]); {
		to, total := from+1, 1+wide(0)+wide(from)
		for to < len(lines[0]) && total+wide(to) <= p.width {
			total += wide(to)
			to++
		}
		part := make([][]string, len(lines))
		for i, l := range lines {
			part[i] = append([]string{l[0]}, l[from:to]...)
		}
		if err := eval.Render(&p.b, part, false); err != nil {
			return err
		}
		from = to
	}
	return nil
}
