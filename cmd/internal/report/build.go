package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"gnnsched/internal/quote"
	"gnnsched/internal/runfolder"
)

// budget bounds the content of a page.
type budget struct {
	cells     int // loads in heat maps
	decisions int // rows
	points    int // of a curve
	rows      int // of any other table
}

// full is the budget of a page before anything had to be thinned out.
var full = budget{cells: 1_600_000, decisions: 1500, points: 240, rows: 2000}

// half returns half the budget.
func (b budget) half() budget {
	return budget{max(b.cells/2, 1000), max(b.decisions/2, 10), max(b.points/2, 20), max(b.rows/2, 20)}
}

// builder makes the sections of the page.
type builder struct {
	budget
	data data
}

// build returns the sections of the runs.
func (b *builder) build(runs []*runfolder.Run) []run {
	b.data.Clusters = map[string]cluster{}
	scenarios, deciding := 0, 0
	for _, r := range runs {
		scenarios += len(namesOf(r))
		if len(r.Decisions) > 0 {
			deciding++
		}
	}
	b.cells /= max(scenarios, 1)
	b.decisions /= max(deciding, 1)
	var out []run
	for i, r := range runs {
		out = append(out, b.run(fmt.Sprintf("run%d", i+1), r))
	}
	return out
}

func (b *builder) run(id string, r *runfolder.Run) run {
	out := run{ID: id, Manifest: r.Manifest, Title: titleOf(r), Command: quote.Shell(r.Manifest.Command...), Seeds: seedList(r.Manifest.Seeds)}
	out.Notes = slices.Concat(r.Manifest.Notes, r.Notes)
	for _, file := range slices.Sorted(maps.Keys(r.Manifest.Dropped)) {
		n := float64(r.Manifest.Dropped[file])
		out.Notes = append(out.Notes, fmt.Sprintf("%s lacks %s rows, for which it had no room.", file, number(n, 0)))
	}
	if why := incomplete(r); why != "" {
		out.Notes = append(out.Notes, why)
	}
	for _, v := range r.Verdicts {
		out.Verdicts = append(out.Verdicts, verdictOf(v))
	}
	for i, name := range namesOf(r) {
		out.Scenarios = append(out.Scenarios, b.scenario(fmt.Sprintf("%s-s%d", id, i+1), name, r))
	}
	for _, t := range r.Tables {
		if t.Scenario == "" {
			out.Tables = append(out.Tables, b.table(t))
		}
	}
	out.Decisions = b.chosen(id, r)
	out.Curves, out.CurveRows = b.curves(r.Scalars, "Learning in figures", "step")
	return out
}

// incomplete explains why a run is incomplete; empty if it is complete.
func incomplete(r *runfolder.Run) string {
	switch m := r.Manifest; {
	case m.Error != "":
		return "The run is incomplete: it ended before its time: " + m.Error
	case m.Ended == nil && !m.Started.IsZero():
		return "The run is incomplete: it has not noted its end, so it goes on, or it was killed or could not write."
	}
	return ""
}

func titleOf(r *runfolder.Run) string {
	if r.Manifest.Title != "" {
		return r.Manifest.Title
	}
	return strings.TrimSpace(r.Manifest.Kind + " in " + r.Dir)
}

// namesOf returns the names of scenarios in the order in which they come in the folder.
func namesOf(r *runfolder.Run) (out []string) {
	add := func(name string) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, s := range r.Scenarios {
		add(s.Name)
	}
	for _, e := range r.Episodes {
		add(e.Scenario)
	}
	for _, f := range r.Frames {
		add(f.Scenario)
	}
	for _, w := range r.Waits {
		add(w.Scenario)
	}
	return out
}

// signs are the signs and words of states, and the words of the summary.
var signs = map[runfolder.State][3]string{
	runfolder.Better: {"▲", "Better", "better"}, runfolder.Worse: {"▼", "Worse", "worse"},
	runfolder.Level:   {"=", "Level", "no difference beyond chance"},
	runfolder.Unclear: {"?", "Unclear", "unclear"},
	runfolder.Pass:    {"✓", "Held", "held"}, runfolder.Fail: {"✗", "Missed", "missed"}, runfolder.Note: {"i", "Note", "noted"},
}

func verdictOf(v runfolder.Verdict) verdict {
	s, known := signs[v.State]
	if !known {
		v.State = runfolder.Note
		s = signs[v.State]
	}
	return verdict{v, s[0], s[1]}
}

// lead sums up the verdicts in one sentence.
func lead(runs []run) string {
	count := map[runfolder.State]int{}
	total := 0
	for _, r := range runs {
		for _, v := range r.Verdicts {
			count[v.State]++
			total++
		}
	}
	if total == 0 {
		return "These runs judged nothing, so there is no verdict."
	}
	var parts []string
	var compared []string
	states := []runfolder.State{runfolder.Better, runfolder.Level, runfolder.Unclear, runfolder.Worse}
	n := 0
	for _, s := range states {
		n += count[s]
	}
	if n > 0 {
		for _, s := range states {
			if count[s] > 0 {
				compared = append(compared, fmt.Sprintf("%s in %d", signs[s][2], count[s]))
			}
		}
		parts = append(parts, upper(strings.Join(compared, ", "))+fmt.Sprintf(" of %d %s.", n, english.PluralWord(n, "comparison", "")))
	}
	if n := count[runfolder.Pass] + count[runfolder.Fail]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d %s held.", count[runfolder.Pass], n, english.PluralWord(n, "threshold", "")))
	}
	if n := count[runfolder.Note]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d %s.", n, english.PluralWord(n, "statement", "")))
	}
	return strings.Join(parts, " ")
}

// seedList writes consecutive seeds as a range.
func seedList(seeds []uint64) string {
	var parts []string
	for i := 0; i < len(seeds); {
		k := i
		for k+1 < len(seeds) && seeds[k+1] == seeds[k]+1 {
			k++
		}
		if k > i {
			parts = append(parts, fmt.Sprintf("%d to %d", seeds[i], seeds[k]))
		} else {
			parts = append(parts, fmt.Sprint(seeds[i]))
		}
		if i = k + 1; len(parts) == 20 && i < len(seeds) {
			return strings.Join(parts, ", ") + fmt.Sprintf(" and %d more", len(seeds)-i)
		}
	}
	return strings.Join(parts, ", ")
}

// table returns a table of a run, cut to the budget.
func (b *builder) table(t runfolder.Table) table {
	out := table{Caption: t.Title, Text: t.Text, Columns: t.Columns, Rows: t.Rows, Numeric: make([]bool, len(t.Columns))}
	for i := range t.Columns {
		out.Numeric[i] = i > 0 && len(t.Rows) > 0 && !slices.ContainsFunc(t.Rows, func(r []string) bool { return !numeric(r[i]) })
	}
	return b.cut(out)
}

// cut leaves out the rows beyond the budget, and notes it.
func (b *builder) cut(t table) table {
	if n := len(t.Rows); n > b.rows {
		t.Rows = t.Rows[:b.rows]
		t.Caption += fmt.Sprintf(" (the first %s of %s rows)", number(float64(b.rows), 0), number(float64(n), 0))
	}
	return t
}

// numeric tells whether a cell looks like a number.
func numeric(cell string) bool {
	return cell == "" || strings.ContainsAny(cell[:1], "0123456789+-−") && strings.ContainsAny(cell, "0123456789")
}

// chosen returns the decisions of a run, evenly thinned out to the budget.
func (b *builder) chosen(id string, r *runfolder.Run) *decisions {
	if len(r.Decisions) == 0 {
		return nil
	}
	d := &decisions{ID: id + "-decisions", All: len(r.Decisions), Rows: thin(r.Decisions, b.decisions)}
	for _, s := range r.Scenarios {
		if d.Unit == "" {
			d.Unit = s.TimeUnit
		} else if s.TimeUnit != d.Unit {
			d.Unit = "the scenario's unit"
		}
	}
	return d
}

// thin returns at most n elements, evenly spread.
func thin[T any](all []T, n int) []T {
	if len(all) <= n {
		return all
	}
	out := make([]T, n)
	for i := range out {
		out[i] = all[i*len(all)/n]
	}
	return out
}
