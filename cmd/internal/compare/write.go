package compare

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"
)

var formats = map[string]func(io.Writer, result) error{"table": writeTable, "csv": writeCSV, "json": writeJSON}

func writeJSON(w io.Writer, r result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func writeCSV(w io.Writer, r result) error {
	out := csv.NewWriter(w)
	head := []string{"name", "pods", "wait_p95_s", "unscheduled", "never_ran", "preempted"}
	for _, f := range figures {
		head = append(head, f.name, f.name+"_difference", f.name+"_low", f.name+"_high")
	}
	lines := [][]string{head}
	for _, x := range r.withLive() {
		line := []string{x.Name, strconv.Itoa(x.Pods), number(&x.P95), strconv.Itoa(x.Unscheduled), strconv.Itoa(x.NeverRan), strconv.Itoa(x.Preempted)}
		for _, f := range figures {
			value := x.Figures[f.name]
			d, has := x.Differences[f.name]
			mean := ""
			if has {
				mean = number(&d.Mean)
			}
			line = append(line, number(&value), mean, number(d.Low), number(d.High))
		}
		lines = append(lines, line)
	}
	return out.WriteAll(lines)
}

// number writes a number; nothing for nil.
func number(x *float64) string {
	if x == nil {
		return ""
	}
	return strconv.FormatFloat(*x, 'g', -1, 64)
}

// shown returns the figures that the table has.
func (r result) shown() []figure {
	if r.priced {
		return figures
	}
	var out []figure
	for _, f := range figures {
		if f.name != priceFigure {
			out = append(out, f)
		}
	}
	return out
}

// accuracy says how far the simulated present profile is from what really happened.
func (r result) accuracy() string {
	present := r.Rows[r.baseline()]
	if r.Unrecorded != "" {
		return fmt.Sprintf("How far the simulated %s is from what really happened is not known: %s.", present.Name, r.Unrecorded)
	}
	return fmt.Sprintf("How far the simulated %s is from what really happened: %s", present.Name, r.list(present.Differences))
}

func writeTable(w io.Writer, r result) error {
	present := r.Rows[r.baseline()]
	for _, line := range r.confirmed() {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "%s\n\n%s to %s, %v; cost is %s\n", r.accuracy(), r.From.Format(time.RFC3339), r.To.Format(time.RFC3339), r.To.Sub(r.From).Round(time.Second), r.Objective)
	if err := r.table(w, false); err != nil {
		return err
	}
	if len(r.Rows) > r.baseline()+1 {
		fmt.Fprintf(w, "\nDifference from the simulated %s, with 95 %% intervals where there are enough independent stretches of time\n", present.Name)
		if err := r.table(w, true); err != nil {
			return err
		}
	}
	fmt.Fprintln(w, "\nThe replay lacks")
	for _, l := range r.Lacks {
		fmt.Fprintf(w, "  %s (%d pods)\n", l.What, l.Pods)
	}
	for _, note := range r.notes() {
		fmt.Fprintf(w, "note: %q\n", note)
	}
	return nil
}

// notes returns the notes and those about single rows.
func (r result) notes() []string {
	out := r.Notes
	for _, x := range r.withLive() {
		if x.Fallbacks > 0 {
			out = append(out, fmt.Sprintf("%s: upstream's scores decided %d times, because the profile failed", x.Name, x.Fallbacks))
		}
		if x.Refused > 0 {
			out = append(out, fmt.Sprintf("%s: %d pods are left out, because a plugin failed on them", x.Name, x.Refused))
		}
	}
	return out
}

// table writes the rows, or the differences of the profiles after the present one.
func (r result) table(w io.Writer, differences bool) error {
	header, rows := []string{""}, r.withLive()
	for i, f := range r.shown() {
		header = append(header, f.title)
		if i == 0 && !differences {
			header = append(header, "p95")
		}
	}
	if differences {
		rows = r.Rows[r.baseline()+1:]
	} else {
		header = append(header, "unscheduled", "never ran", "preempted")
	}
	align := make(tw.Alignment, len(header))
	for i := range align {
		align[i] = tw.AlignRight
	}
	align[0] = tw.AlignLeft
	t := tablewriter.NewTable(w, tablewriter.WithHeaderAutoFormat(tw.Off), tablewriter.WithAlignment(align))
	t.Header(header)
	for _, x := range rows {
		if err := t.Append(r.line(x, differences)); err != nil {
			return fmt.Errorf("write the table: %w", err)
		}
	}
	if err := t.Render(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// liveSuffix follows the names of live rows.
const liveSuffix = " (live)"

// withLive returns all rows, with each live row behind its simulated one.
func (r result) withLive() (out []row) {
	for _, x := range r.Rows {
		out = append(out, x)
		if x.Live != nil {
			live := x.Live.row
			live.Name += liveSuffix
			out = append(out, live)
		}
	}
	return out
}

func (r result) line(x row, differences bool) []string {
	name := x.Name
	if x.Name != reality && !strings.HasSuffix(name, liveSuffix) {
		name += " (simulated)"
	}
	line := []string{name}
	for k, f := range r.shown() {
		if differences {
			line = append(line, x.Differences[f.name].text(f))
			continue
		}
		line = append(line, fmt.Sprintf(f.format, x.Figures[f.name]))
		if k == 0 {
			line = append(line, fmt.Sprintf(f.format, x.P95))
		}
	}
	if differences {
		return line
	}
	return append(line, strconv.Itoa(x.Unscheduled), strconv.Itoa(x.NeverRan), strconv.Itoa(x.Preempted))
}

// text renders a difference with its interval, if there is one.
func (d difference) text(f figure) string {
	signed := "%+" + f.format[1:]
	if d.Low == nil {
		return fmt.Sprintf(signed, d.Mean)
	}
	return fmt.Sprintf(signed+" ("+signed+" to "+signed+")", d.Mean, *d.Low, *d.High)
}
