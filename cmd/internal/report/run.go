package report

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"
	"gonum.org/v1/gonum/stat"

	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/scheduler/eval"
)

// Run holds the data of a page.
type Run struct {
	Title     string // one line for people
	Command   string // that makes the page again, quoted for a shell
	Version   string // of the program and of Kubernetes
	Started   time.Time
	Ended     time.Time
	Seeds     []uint64
	Settings  map[string]string // the flags that were set, by name
	Notes     []string          // what readers must know about the data
	Verdicts  []Verdict         // the most important first
	Scenarios []Scenario
}

// Scenario is the setting in which contenders were compared, simulated or recorded, and what was found.
type Scenario struct {
	Name        string
	About       string
	Objective   string
	Baseline    string   // of the differences
	Rule        string   // how differences are marked, for people
	Metrics     []Metric // in the order in which they are shown, the objective first
	Episodes    []Episode
	Differences []Difference
	Tables      []Table
	Observed    eval.Observed
	Front       [2]string // the metrics of a scatter chart with a mark for each contender, across and upwards; empty: none
}

// Metric describes the values of a name in Episode and Difference. Less is better.
type Metric struct {
	Name   string
	Title  string
	Digits int // after the point
}

// State is a verdict in a word.
type State string

// The states of verdicts.
const (
	Better State = "better" // significantly so
	Worse  State = "worse"
	Level  State = "level" // no difference that is more than chance, or none at all
	// Unclear: the interval excludes 0 but p is not low enough, or the contrary.
	Unclear State = "unclear"
	Pass    State = "pass" // a threshold that holds
	Fail    State = "fail"
	Note    State = "note" // a statement without judgement
)

// StateOf returns the state of a verdict on a difference; Note for one without a mark.
func StateOf(m eval.Mark) State {
	return map[eval.Mark]State{
		eval.Unmarked: Note, eval.None: Level, eval.Unclear: Unclear, eval.Lower: Better, eval.Higher: Worse,
	}[m]
}

// Verdict is a sentence about a contender.
type Verdict struct {
	Scenario string
	State    State
	Text     string // a sentence without a full stop
}

// Episode holds the metrics of one contender in one episode, by Metric.Name.
type Episode struct {
	Contender string
	Values    map[string]float64
}

// Difference is the mean of a contender's metric minus the baseline's on the same episodes.
type Difference struct {
	Contender string
	Metric    string
	Mean      float64
	Low       *float64 // ends of the 95 % interval
	High      *float64
	Relative  *float64 // Mean divided by the baseline's mean
	P         *float64 // adjusted for the comparisons that were made; nil if there are too few samples for a mark
	Mark      State    // Better, Worse, Level or Unclear; empty if there are too few samples
}

// Table is anything else that the page shows as a table.
type Table struct {
	Title   string
	Columns []string
	Rows    [][]string
}

// Flag is the flag that asks for a page.
func Flag() ucli.Flag {
	return &ucli.StringFlag{Name: "html", Usage: "write a page to `FILE`: verdict, differences with intervals, the cluster over time, waits, " +
		"decisions; json then holds what was seen of the cluster, too"}
}

// Begin begins the run of a command, in which flags other than those in without were set.
func Begin(c *ucli.Context, title string, seeds []uint64, without string) (Run, error) {
	r := Run{
		Title: title, Version: c.App.Version, Started: time.Now().UTC(), Seeds: seeds, Settings: map[string]string{},
	}
	command, skip := []string{"gnnsched", c.Command.Name}, map[string]bool{}
	for _, name := range strings.Fields(without) {
		skip[name] = true
	}
	for _, f := range c.Command.Flags {
		for _, alias := range f.Names()[1:] {
			skip[alias] = true
		}
	}
	for _, name := range c.LocalFlagNames() {
		if skip[name] {
			continue
		}
		value := setting(c.Value(name))
		if r.Settings[name] = value; value == "true" {
			command = append(command, "--"+name)
		} else {
			command = append(command, "--"+name+"="+value)
		}
	}
	r.Command = exit.ShellLine(append(command, c.Args().Slice()...)...)
	to := c.String("html")
	if !c.IsSet("html") {
		return r, nil
	}
	if info, err := os.Stat(filepath.Dir(to)); to == "" || err != nil || !info.IsDir() {
		return r, exit.New(exit.Usage, fmt.Errorf("--html %q: its folder is not there", to), "name a file in a folder that you can write to")
	}
	return r, nil
}

// setting writes the value of a flag as one gives it.
func setting(v any) string {
	switch v := v.(type) {
	case ucli.StringSlice:
		return strings.Join(v.Value(), ",")
	case ucli.Timestamp:
		return v.Value().UTC().Format(time.RFC3339)
	}
	return fmt.Sprint(v)
}

// Write writes the page to the file of --html, if there is one. failed is why the run ended before its time.
func (r Run) Write(c *ucli.Context, failed error) error {
	to := c.String("html")
	if to == "" {
		return nil
	}
	if r.Ended = time.Now().UTC(); failed != nil {
		r.Notes = append(r.Notes, "The run is incomplete: it ended before its time: "+failed.Error())
	}
	text, err := render(r)
	if err == nil {
		err = files.Write(to, text, 0o644)
	}
	if err != nil {
		return exit.New(exit.Internal, errors.Join(errors.New("write the page of --html"), err), "choose a file that you can write to")
	}
	fmt.Fprintf(c.App.ErrWriter, "wrote %s, %s kB; open it in a browser\n", to, number(float64(len(text))/1000, 0))
	return nil
}

// mostSpread is the largest number of distribution plots, and of difference plots.
const mostSpread = 4

// scenario returns the section of a scenario.
func (b *builder) scenario(id string, s Scenario) scenario {
	out := scenario{ID: id, Scenario: s}
	var names []string
	values := map[string]map[string][]float64{} // by metric and contender
	for _, m := range s.Metrics {
		values[m.Name] = map[string][]float64{}
	}
	for _, e := range s.Episodes {
		if !slices.Contains(names, e.Contender) {
			names = append(names, e.Contender)
		}
		for _, m := range s.Metrics {
			values[m.Name][e.Contender] = append(values[m.Name][e.Contender], e.Values[m.Name])
		}
	}
	if len(names) > 0 {
		out.Means = means(s, names, values)
	}
	if s.Front[0] != "" && len(names) > 0 {
		out.Scatter = new(scatter(metricOf(s, s.Front[0]), metricOf(s, s.Front[1]), names, values))
	}
	b.differences(&out)
	for _, m := range judgedFirst(s.Metrics, s.Differences)[:min(mostSpread, len(s.Metrics))] {
		if slices.ContainsFunc(names, func(n string) bool { return len(values[m.Name][n]) > 1 }) { // one episode has no distribution
			out.Spread = append(out.Spread, strips(m, names, values[m.Name]))
		}
	}
	b.frames(&out)
	b.waits(&out)
	for _, t := range s.Tables {
		out.Others = append(out.Others, b.table(t))
	}
	return out
}

// judgedFirst returns the metrics, those with differences first.
func judgedFirst(metrics []Metric, judged []Difference) []Metric {
	rank := func(m Metric) int {
		if slices.ContainsFunc(judged, func(d Difference) bool { return d.Metric == m.Name }) {
			return 0
		}
		return 1
	}
	return slices.SortedStableFunc(slices.Values(metrics), func(a, b Metric) int { return rank(a) - rank(b) })
}

// metricOf returns the metric with a name; one for anything if the scenario describes none.
func metricOf(s Scenario, name string) Metric {
	if i := slices.IndexFunc(s.Metrics, func(m Metric) bool { return m.Name == name }); i >= 0 {
		return s.Metrics[i]
	}
	return Metric{Name: name, Title: name, Digits: 4}
}

// means returns the table of means.
func means(s Scenario, names []string, values map[string]map[string][]float64) *table {
	t := &table{
		Caption: "Means over episodes; less is better", Columns: []string{"policy", "episodes"}, Numeric: []bool{false, true},
	}
	for _, m := range s.Metrics {
		t.Columns, t.Numeric = append(t.Columns, m.Title), append(t.Numeric, true)
	}
	for _, n := range names {
		label, most := n, 0
		if n == s.Baseline {
			label += " (baseline)"
		}
		row := []string{label, ""}
		for _, m := range s.Metrics {
			v := values[m.Name][n]
			most = max(most, len(v))
			row = append(row, number(stat.Mean(v, nil), m.Digits))
		}
		row[1] = number(float64(most), 0)
		t.Rows = append(t.Rows, row)
	}
	return t
}

// differences draws the differences of the first metrics and makes the table of all.
func (b *builder) differences(out *scenario) {
	var order []string
	by := map[string][]Difference{}
	for _, d := range out.Differences {
		if by[d.Metric] == nil {
			order = append(order, d.Metric)
		}
		by[d.Metric] = append(by[d.Metric], d)
	}
	if len(order) == 0 {
		return
	}
	t := table{
		Caption: "Differences from " + cmp.Or(out.Baseline, "the baseline"),
		Columns: []string{"metric", "policy", "difference", "95 % interval", "relative", "adjusted p", "mark"},
		Numeric: []bool{false, false, true, true, true, true, false},
	}
	for i, name := range order {
		m := metricOf(out.Scenario, name)
		if i < mostSpread {
			out.Effects = append(out.Effects, effects(m, cmp.Or(out.Baseline, "the baseline"), by[name]))
		}
		for _, d := range by[name] {
			row := []string{m.Title, d.Contender, signed(d.Mean, m.Digits), "", "", "", string(d.Mark)}
			if d.Low != nil && d.High != nil {
				row[3] = signed(*d.Low, m.Digits) + " to " + signed(*d.High, m.Digits)
			}
			if d.Relative != nil {
				row[4] = signed(100**d.Relative, 1) + " %"
			}
			if d.P != nil {
				row[5] = eval.Significance(*d.P)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	out.Changes = new(b.cut(t))
}

// frames makes the heat maps and the curves of the cluster over time, of the first seed that has frames.
func (b *builder) frames(out *scenario) {
	var films []film
	at := map[string]int{}
	seeds := map[string]uint64{}
	for _, f := range out.Observed.Frames {
		i, known := at[f.Contender]
		if !known {
			i = len(films)
			at[f.Contender], seeds[f.Contender] = i, f.Seed
			films = append(films, film{contender: f.Contender})
		}
		if f.Seed == seeds[f.Contender] {
			films[i].frames = append(films[i].frames, f)
		}
	}
	if len(films) == 0 {
		return
	}
	for _, f := range films {
		slices.SortStableFunc(f.frames, func(a, b eval.Frame) int { return cmp.Compare(a.At, b.At) })
	}
	heat, c := heatOf(out.ID, out.Scenario, films, b.cells)
	out.Heat = heat
	b.data.Clusters[out.ID] = c
	out.Time = b.overTime(out.Scenario, films)
}

// overTime draws figures of the cluster over time.
func (b *builder) overTime(s Scenario, films []film) (out []chart) {
	for _, p := range []struct {
		title   string
		percent bool
		of      func(eval.Frame, moment) float64
	}{
		{"CPU requested, mean of the nodes", true, func(_ eval.Frame, m moment) float64 { return m.cpu }},
		{"load imbalance: standard deviation of CPU over nodes", false, func(_ eval.Frame, m moment) float64 { return m.spread }},
		{"pods waiting", false, func(f eval.Frame, _ moment) float64 { return float64(f.Waiting) }},
		{"nodes in use", false, func(_ eval.Frame, m moment) float64 { return float64(m.used) }},
	} {
		c := plot{title: p.title, across: "time in " + cmp.Or(s.Observed.Unit, "seconds"), percent: p.percent}
		for _, f := range films {
			line := curve{name: f.contender}
			for _, x := range thin(f.frames, b.points) {
				line.x, line.y = append(line.x, x.At), append(line.y, p.of(x, summarise(x)))
			}
			c.curves = append(c.curves, line)
		}
		out = append(out, c.chart())
	}
	return out
}

// waits draws the waiting by class and makes its table.
func (b *builder) waits(out *scenario) {
	var classes, names []string
	of := map[[2]string]eval.Waits{}
	t := table{
		Caption: "Waiting by class, in " + cmp.Or(out.Observed.Unit, "seconds"),
		Columns: []string{"class", "policy", "pods", "waited", "no node", "mean wait", "median", "90 %", "95 %", "99 %", "longest"},
		Numeric: []bool{false, false, true, true, true, true, true, true, true, true, true},
	}
	for _, w := range out.Observed.Waits {
		if !slices.Contains(classes, w.Class) {
			classes = append(classes, w.Class)
		}
		if !slices.Contains(names, w.Contender) {
			names = append(names, w.Contender)
		}
		of[[2]string{w.Class, w.Contender}] = w
	}
	if len(classes) == 0 {
		return
	}
	for _, c := range classes {
		for _, n := range names {
			w, known := of[[2]string{c, n}]
			if !known {
				continue
			}
			row := []string{c, n, number(float64(w.Pods), 0), number(float64(w.Waited), 0), number(float64(w.Never), 0), short(w.Mean)}
			for i := range eval.Quantiles {
				cell := ""
				if i < len(w.Quantiles) {
					cell = short(w.Quantiles[i])
				}
				row = append(row, cell)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	out.Waited = new(b.cut(t))
	const most = 160 // bars
	if len(classes)*len(names) <= most {
		out.Waits = new(waitBars(late(out.Scenario), classes, names, of))
	}
}

// late names the pods that waited.
func late(s Scenario) string {
	if s.Observed.Soon == 0 {
		return "pods that got no node at once"
	}
	unit := cmp.Or(s.Observed.Unit, "seconds")
	if s.Observed.Soon == 1 {
		unit = strings.TrimSuffix(unit, "s")
	}
	return "pods that waited more than " + short(s.Observed.Soon) + " " + unit
}
