package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"fmt"
	"html/template"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

	"gnnsched/internal/each"
	"gnnsched/scheduler/eval"
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

// build adds the sections of the run.
func (b *builder) build(p *page) {
	b.data.Clusters = map[string]cluster{}
	b.cells /= max(len(p.Run.Scenarios), 1)
	p.Seeds, p.Notes = seedList(p.Run.Seeds), p.Run.Notes
	p.Verdicts, p.Scenarios = each.Map(p.Run.Verdicts, verdictOf), nil
	for i, s := range p.Run.Scenarios {
		p.Scenarios = append(p.Scenarios, b.scenario(fmt.Sprintf("run1-s%d", i+1), s))
	}
	p.Decisions, p.Data, p.Lead = b.chosen(p.Run.Scenarios), b.data, lead(p.Verdicts)
}

// signs are the signs and words of states, and the words of the summary.
var signs = map[State][3]string{
	Better: {"▲", "Better", "better"}, Worse: {"▼", "Worse", "worse"},
	Level:   {"=", "Level", "no difference beyond chance"},
	Unclear: {"?", "Unclear", "unclear"},
	Pass:    {"✓", "Held", "held"}, Fail: {"✗", "Missed", "missed"}, Note: {"i", "Note", "noted"},
}

func verdictOf(v Verdict) verdict {
	s := signs[v.State]
	return verdict{v, s[0], s[1]}
}

// lead sums up the verdicts in one sentence.
func lead(verdicts []verdict) string {
	if len(verdicts) == 0 {
		return "This run judged nothing, so there is no verdict."
	}
	count := map[State]int{}
	for _, v := range verdicts {
		count[v.State]++
	}
	var parts []string
	var compared []string
	states := []State{Better, Level, Unclear, Worse}
	n := each.Sum(states, func(s State) int { return count[s] })
	if n > 0 {
		for _, s := range states {
			if count[s] > 0 {
				compared = append(compared, fmt.Sprintf("%s in %d", signs[s][2], count[s]))
			}
		}
		parts = append(parts, upper(strings.Join(compared, ", "))+fmt.Sprintf(" of %d %s.", n, english.PluralWord(n, "comparison", "")))
	}
	if n := count[Pass] + count[Fail]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d %s held.", count[Pass], n, english.PluralWord(n, "threshold", "")))
	}
	if n := count[Note]; n > 0 {
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

// table returns a table, cut to the budget.
func (b *builder) table(t Table) table {
	out := table{Caption: t.Title, Columns: t.Columns, Rows: t.Rows, Numeric: make([]bool, len(t.Columns))}
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

// chosen returns the decisions, evenly thinned out to the budget.
func (b *builder) chosen(scenarios []Scenario) *decisions {
	var all []decided
	units := map[string]bool{}
	d := &decisions{ID: "run1-decisions"}
	for _, s := range scenarios {
		d.Unit = s.Observed.Unit
		units[s.Observed.Unit] = true
		all = append(all, each.Map(s.Observed.Decisions, func(x eval.Decision) decided { return decided{s.Name, x} })...)
	}
	if len(all) == 0 {
		return nil
	}
	if len(units) > 1 {
		d.Unit = "the scenario's unit"
	}
	d.All, d.Rows = len(all), thin(all, b.decisions)
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

//go:embed page.html
var markup string

//go:embed style.css
var style string

//go:embed script.js
var script string

var platform = fmt.Sprintf("%s %s/%s, %d CPUs", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())

// maxPage is the number of bytes that a page may have.
const maxPage = 3_000_000

var layout = template.Must(template.New("page").Funcs(template.FuncMap{
	"short":     short,
	"score":     score,
	"scale":     scaleBars,
	"multiline": func(s string) bool { return strings.Contains(s, "\n") },
}).Parse(markup))

// score formats a score of any size.
func score(v float64) string {
	if math.Abs(v) >= 1e6 {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return strings.TrimSuffix(strings.TrimRight(number(v, 4), "0"), ".")
}

// scaleBars draws the colours of the heat maps from 0 to 100 %.
func scaleBars() template.HTML {
	var b strings.Builder
	colors := palette()
	for i := range 50 {
		r, g, bl, _ := colors[i].RGBA()
		fmt.Fprintf(&b, `<rect x="%d" y="0" width="2.1" height="8" fill="#%02x%02x%02x"/>`, 2*i, r>>8, g>>8, bl>>8)
	}
	return template.HTML(b.String())
}

// policy allows the page's own style and script, by their hashes, and pictures in data URLs.
func policy() string {
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; script-src " + hash(script) + "; style-src " + hash(style) +
		"; img-src data:; base-uri 'none'; form-action 'none'"
}

// render returns the page of a run. It thins out more and more until the page has at most maxPage bytes.
func render(r Run) ([]byte, error) {
	// html/template would escape a style that closes its element; these are parts of the program.
	p := page{Run: r, CSP: policy(), Style: template.CSS(style), Script: template.JS(script), Platform: platform}
	for budget := full; ; budget = budget.half() {
		b := builder{budget: budget}
		b.build(&p)
		var out bytes.Buffer
		if err := layout.Execute(&out, p); err != nil {
			return nil, fmt.Errorf("write the page: %w", err)
		}
		if out.Len() <= maxPage {
			return out.Bytes(), nil
		}
		if budget == budget.half() {
			return nil, fmt.Errorf("the page has %d bytes however much is left out, more than %d", out.Len(), maxPage)
		}
	}
}

// page holds the data of the template.
type page struct {
	Run
	CSP       string
	Style     template.CSS
	Script    template.JS
	Platform  string // Go version, operating system, architecture, number of CPUs
	Lead      string // the verdict in one sentence
	Seeds     string
	Verdicts  []verdict
	Notes     []string // about the data: missing or thinned parts
	Scenarios []scenario
	Decisions *decisions
	Data      data
}

// verdict is a Verdict with a sign and a word for its state.
type verdict struct {
	Verdict
	Sign, Word string
}

// scenario is the part about one scenario. Parts without data are empty.
type scenario struct {
	Scenario
	ID      string
	Scatter *chart
	Effects []chart // differences by metric
	Changes *table
	Means   *table
	Spread  []chart // distributions of metrics
	Time    []chart // the cluster over time
	Heat    *heat
	Waits   *chart
	Waited  *table
	Others  []table
}

// chart is a figure with its caption.
type chart struct {
	SVG     template.HTML
	Caption string
}

// table is a table with a caption. The first column has row headings.
type table struct {
	Caption string
	Columns []string
	Rows    [][]string
	Numeric []bool // by column: aligned to the right
}

// heat is the heat maps of the contenders of a scenario, which share one slider.
type heat struct {
	ID     string // key in data.Clusters
	Frames int    // steps of the slider
	Maps   []heatMap
	Kinds  []string // the resources: cpu, memory, gpu
	Rows   *table   // the cluster over time in figures
	Notes  []string
	From   string // the times of the first and last frame
	Until  string
	Unit   string
}

// heatMap is the picture of one contender.
type heatMap struct {
	Contender string
	Index     int
	Images    []imageData // by heat.Kinds
	Nodes     int
}

// imageData is a PNG as a data URL.
type imageData struct {
	Kind string
	URL  template.URL
	Alt  string
}

// decisions is the table of decisions that one can search.
type decisions struct {
	ID   string
	Unit string
	All  int // before thinning
	Rows []decided
}

// decided is a decision in a scenario.
type decided struct {
	Scenario string
	eval.Decision
}

// data is the JSON that the script reads.
type data struct {
	Clusters map[string]cluster `json:"clusters"`
}

// cluster holds the frames of a heat.
type cluster struct {
	Unit string   `json:"unit"`
	At   []string `json:"at"` // by step of the slider
	Maps []layers `json:"maps"`
}

// layers are the frames of one contender: a string for each step, with a character for each node.
type layers struct {
	Contender string              `json:"contender"`
	Nodes     []string            `json:"nodes"`
	Waiting   []int               `json:"waiting"`
	Levels    map[string][]string `json:"levels"` // by resource
}
