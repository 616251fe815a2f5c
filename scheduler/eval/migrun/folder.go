package migrun

import (
	"cmp"
	"fmt"
	"strings"

	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/runlog"
)

// Folder returns the rows of a run folder: a scenario for each mix, with each load's figures.
func (r *Report) Folder() (rows []runfolder.Row) {
	for _, c := range r.Mixes {
		s := runfolder.Scenario{Name: c.Name, About: c.About, Objective: "allocated compute slices", TimeUnit: "mean lifetimes"}
		for _, row := range runlog.ColumnRows(s, r.columns(c), r.judged(c), eval.Judge(r.judged(c)...)) {
			if d, is := row.(runfolder.Difference); is {
				d.Relative = nil
				row = d
				if d.Metric == r.column(c, len(r.Loads)-1, allocation).Name {
					rows = append(rows, r.verdict(c, d))
				}
			}
			rows = append(rows, row)
		}
		rows = append(rows, r.bounds("optimum", c, c.Optimum)...)
		rows = append(rows, r.bounds("bound", c, c.Bounds)...)
		for _, t := range r.tables(c) {
			text := strings.TrimSpace(t.text)
			rows = append(rows, runfolder.Table{Scenario: c.Name, Title: t.title, Text: text, Columns: t.rows[0], Rows: t.rows[1:]})
		}
	}
	return rows
}

// columns returns the metrics of a mix, load by load, the allocations first.
func (r *Report) columns(c Comparison) (out []eval.Column) {
	for k := range r.Loads {
		out = append(out, r.column(c, k, allocation))
	}
	metrics := []eval.Metric{unscheduled}
	if c.steady {
		metrics = []eval.Metric{waiting, meanWait}
	}
	for k := range r.Loads {
		for _, m := range metrics {
			out = append(out, r.column(c, k, m))
		}
	}
	return out
}

// bounds returns the allocations of a bound, which are by seed and load.
func (r *Report) bounds(name string, c Comparison, of [][]float64) (rows []runfolder.Row) {
	for i, loads := range of {
		e := runfolder.Episode{Scenario: c.Name, Contender: name, Seed: r.Seeds[i], Values: map[string]float64{}}
		for k, b := range loads {
			e.Values[r.column(c, k, allocation).Name] = 100 * b
		}
		rows = append(rows, e)
	}
	return rows
}

// verdict judges a policy by its allocation at the highest load.
func (r *Report) verdict(c Comparison, d runfolder.Difference) runfolder.Verdict {
	text := fmt.Sprintf("at %s requested, %s allocates %+.2f points against %s", eval.Percent(r.Loads[len(r.Loads)-1]), d.Contender, d.Mean,
		c.At[0].Results[0].Name)
	if d.P != nil {
		text += fmt.Sprintf(" (%+.2f to %+.2f, p %s)", *d.Low, *d.High, eval.Significance(*d.P))
	}
	return runfolder.Verdict{Scenario: c.Name, Contender: d.Contender, State: cmp.Or(d.Mark, runfolder.Note), Text: text}
}
