package main

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// An evalTable reads the Markdown of gnnsched eval line by line. It holds the table that the next line may belong to.
type evalTable struct {
	scenario string            // from the heading
	load     string            // in %, from the heading; "" if the heading names none
	caption  string            // the heading and the text above the table, or the text since the table before
	baseline string            // the policy that differences are from, by the latest caption that names one
	head     []string          // the names of the columns; nil outside a table
	first    string            // the policy of the table's first line
	above    map[string]string // the key fields of the line above; a line repeats those that it leaves empty
}

var (
	heading        = regexp.MustCompile("^#+ (.*)$")
	scenarioAtLoad = regexp.MustCompile(`^([a-z0-9]+)-([0-9]{2})$`) // hetero-95
	baselineText   = regexp.MustCompile("[Dd]ifferences? from `?([^ `]+)`?")
)

// readText reads a line outside a table: a heading, a line of a caption, or an empty line.
func (t *evalTable) readText(line string) {
	if m := heading.FindStringSubmatch(line); m != nil {
		*t = evalTable{scenario: m[1]}
		if m := scenarioAtLoad.FindStringSubmatch(t.scenario); m != nil {
			t.scenario, t.load = m[1], m[2]
		}
	}
	if t.head != nil { // the table ends here, and its caption with it
		t.head, t.caption = nil, ""
	}
	if line != "" {
		t.caption += " " + line
	}
	if m := baselineText.FindStringSubmatch(t.caption); m != nil {
		t.baseline = strings.TrimRight(m[1], ".,:")
	}
}

// readLine returns the figures of a line of a table. The head of a table and the rule below it have none.
func (t *evalTable) readLine(line string) []row {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.NewReplacer("`", "", "**", "").Replace(strings.TrimSpace(cells[i]))
	}
	switch {
	case t.head == nil:
		t.head, t.first, t.above = cells, "", map[string]string{}
		return nil
	case strings.Trim(line, "|:- ") == "":
		return nil
	}
	columns := t.head[:min(len(t.head), len(cells))]
	l := t.startLine(columns, cells)
	for i, column := range columns {
		if _, isKey := keyColumns[column]; !isKey {
			cell, _, _ := strings.Cut(cells[i], " ± ")
			l.read(column, cell)
		}
	}
	return l.figures
}

// keyColumns are the columns that say whose figures a line holds, with the fields of a row that they fill.
var keyColumns = map[string]string{
	"scenario": "scenario", "mix": "scenario", "workload": "scenario",
	"policy": "policy", "profile": "policy", "best network": "policy",
	"best without": "than",
	"metric":       "metric",
	"load":         "at",
	"class":        "class", // data files do not keep it
}

// A tableLine is a line of a table. Its figures are read from left to right.
type tableLine struct {
	key      row    // the fields that the line's figures share
	caption  string // of the table
	baseline string // the policy that differences are from
	metric   string // the metric of the figure to the left
	load     string // the load of the figure to the left, if its column is called "at 95%"
	figures  []row
}

// startLine reads the key columns of a line. If no caption names a baseline, differences are from the policy of the
// table's first line: eval leaves the baseline out if it played one seed.
func (t *evalTable) startLine(columns, cells []string) *tableLine {
	key := row{"scenario": t.scenario, "at": t.load}
	for i, column := range columns {
		field, isKey := keyColumns[column]
		if !isKey {
			continue
		}
		if cells[i] != "" {
			t.above[field] = strings.TrimSpace(strings.TrimSuffix(cells[i], "%"))
		}
		key[field] = t.above[field]
	}
	t.first = cmp.Or(t.first, key["policy"])
	return &tableLine{key: key, caption: t.caption, baseline: cmp.Or(t.baseline, t.first)}
}

// figureColumns are the columns that hold more or other than the figure of the metric in their head.
var figureColumns = map[string]func(l *tableLine, cell string){
	"objective":    (*tableLine).objective,
	"unscheduled":  (*tableLine).unscheduled,
	"verdict":      (*tableLine).verdict,
	"difference":   (*tableLine).difference,
	"difference %": (*tableLine).differenceInPercent,
	"saving":       (*tableLine).saving,
}

// loadColumn matches the head of a column of figures at one load: "95%" or "at 95%".
var loadColumn = regexp.MustCompile(`^(?:at )?([0-9.]+) ?%$`)

// detailColumns are the columns that add fields to the figure to the left.
var detailColumns = map[string]func(figure row, cell string){
	"95% interval": row.addInterval,
	"relative":     row.addPercent,
	"adjusted p":   row.addP,
	"p":            row.addP,
}

// keepMetric are the columns whose empty cells do not count as a figure to the left of the next column.
var keepMetric = []string{"difference", "difference %", "saving", "adjusted p", "p"}

// read reads a cell of a column that is no key column.
func (l *tableLine) read(column, cell string) {
	readFigure, isSpecial := figureColumns[column]
	addDetail, isDetail := detailColumns[column]
	switch {
	case cell == "" || cell == "–":
		if !slices.Contains(keepMetric, column) {
			l.metric = column
		}
	case isSpecial:
		readFigure(l, cell)
	case isDetail && len(l.figures) > 0:
		addDetail(l.figures[len(l.figures)-1], cell)
	case loadColumn.MatchString(column):
		l.atLoad(column, cell)
	default:
		l.figure(column, cell)
	}
}

// add adds a figure and returns its row. An empty metric leaves the metric of the line's key.
func (l *tableLine) add(metric, figure string) row {
	r := maps.Clone(l.key)
	r["metric"] = cmp.Or(metric, r["metric"])
	r["than"] = ""
	r.setFigure(figure)
	l.figures = append(l.figures, r)
	return r
}

// figure reads a figure of the metric, at the load of the figure to the left if that has one.
func (l *tableLine) figure(metric, cell string) {
	r := l.add(metric, cell)
	r["at"] = cmp.Or(l.load, r["at"])
	l.metric = metric
}

// objective reads an objective. In a table of verdicts it is "0.1285 → 0.1157", the means without a network and with
// it, and the line's differences are from the policy without a network.
func (l *tableLine) objective(cell string) {
	without, with, isVerdict := strings.Cut(cell, " → ")
	if !isVerdict {
		l.figure("objective", cell)
		return
	}
	l.baseline, l.metric = l.key["than"], "over time"
	l.add("over time", without)["policy"] = l.baseline
	l.add("over time", with)
}

// unscheduled reads a number of unscheduled pods, except "5.0 → 4.0" in a table of verdicts.
func (l *tableLine) unscheduled(cell string) {
	if !strings.Contains(cell, " → ") {
		l.figure("unscheduled", cell)
	}
}

// verdict reads a verdict, which is text.
func (l *tableLine) verdict(cell string) {
	r := l.add("verdict", cell)
	r["than"], r["value"] = l.baseline, cell
}

// atLoad reads a figure at the load that the column names. "94.9 (12.5)" also has the number of unscheduled pods. If
// the column is called "at 95%", figures to its right are at that load, too.
func (l *tableLine) atLoad(column, cell string) {
	load := loadColumn.FindStringSubmatch(column)[1]
	if m := withUnscheduled.FindStringSubmatch(cell); m != nil {
		l.add("unscheduled", m[2])["at"] = load
		cell = m[1]
	}
	metric := "GPU allocation %"
	if strings.Contains(l.caption, "Saving in %") {
		metric = "saving %"
	}
	r := l.add(metric, cell)
	r["at"] = load
	if strings.Contains(l.caption, "Difference from") {
		r["than"] = l.baseline
	}
	l.load = ""
	if strings.HasPrefix(column, "at ") {
		l.load = load
	}
}

// difference reads a difference in the metric to the left, else in that of the key, else in GPU allocation.
func (l *tableLine) difference(cell string) {
	metric := l.metric
	if metric == "" && l.key["metric"] == "" {
		metric = "GPU allocation %"
	}
	l.addDifference(metric, cell)
}

func (l *tableLine) differenceInPercent(cell string) { l.addDifference(l.metric+" in %", cell) }

func (l *tableLine) saving(cell string) { l.addDifference("saving %", cell) }

// addDifference adds a difference from the baseline. "-0.0128 (-10.0%)" also has its percentage.
func (l *tableLine) addDifference(metric, cell string) {
	value, percent, _ := strings.Cut(cell, " (")
	if !strings.HasSuffix(percent, "%)") {
		l.add(metric, cell)["than"] = l.baseline
		return
	}
	r := l.add(metric, value)
	r["than"], r["percent"] = l.baseline, strings.Trim(percent, "+%)")
}

var (
	withInterval    = regexp.MustCompile(`^(\S+) \(?(\S+) to (\S+?)\)?$`) // -0.5 (-0.6 to -0.4)
	withUnscheduled = regexp.MustCompile(`^(\S+) \(([0-9.,]+)\)$`)        // 94.9 (12.5)
)

// setFigure sets the value of a row, and its interval if the figure has one.
func (r row) setFigure(figure string) {
	plain := func(s string) string {
		return strings.TrimPrefix(strings.NewReplacer(",", "", "%", "").Replace(s), "+")
	}
	if m := withInterval.FindStringSubmatch(figure); m != nil {
		r["value"], r["low"], r["high"] = plain(m[1]), plain(m[2]), plain(m[3])
		return
	}
	r["value"] = plain(figure)
}

func (r row) addInterval(cell string) { r.setFigure(r["value"] + " " + cell) }

func (r row) addPercent(cell string) { r["percent"] = strings.Trim(cell, "+%") }

func (r row) addP(cell string) { r["p"] = strings.TrimRight(cell, " *?") }
