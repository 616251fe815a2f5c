package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// table is a producer. It writes a Markdown table of a data file of docs/results/data:
//
//	<!-- generated: table cpu.csv scenario=hetero80,hetero95 policy=linear,dqn metric="over time" rows=scenario columns=policy -->
//
// FIELD=V1,V2 keeps the rows of the file with these values, in this order. Double quotes hold values with spaces
// together. Without than=, differences are left out; than=fgd takes the differences from fgd, than=* all differences.
// rows= and columns= name the fields that head the lines and the columns, several joined by + (rows=scenario+metric).
// A cell is the value, with its interval if it has one: "-1.2 (-1.4 to -1.0)". Differences have a sign. Optional:
//
//	best=least, best=most   the best policy of each scenario, metric and load is bold; bound and optimum do not compete
//	show=value,percent,p    what a cell holds; percent has its interval, too; mean is the value without its interval
//	names="over time:load imbalance,at:load in %"   what the table writes instead of a value or of a field's name
//	decimals=2              rounds
//	head="load"             the heads of the row fields, if not their names; several joined by +
func table(root, of string) (string, error) {
	r, err := parseRequest(of)
	if err != nil {
		return "", err
	}
	g, err := r.grid(root)
	if err != nil {
		return "", err
	}
	var numeric []int
	for i := range g.columns {
		numeric = append(numeric, len(g.rowFields)+i)
	}
	return markdownTable(g.head(), g.text(), numeric...), nil
}

// A grid holds the figures of a table by their lines and columns.
type grid struct {
	request
	all          []row // of the data file
	rowFields    []string
	columnFields []string
	lines        []string // the keys of the lines, from top to bottom
	columns      []string // the keys of the columns, from left to right
	figures      map[place]row
}

// A place is a cell of a grid, by the keys of its line and its column.
type place struct{ line, column string }

// grid arranges the figures that the request chooses.
func (r request) grid(root string) (grid, error) {
	chosen, err := r.chosen(root)
	if err != nil {
		return grid{}, err
	}
	all, err := readData(dataFile(root, r.file))
	if err != nil {
		return grid{}, err
	}
	g := grid{request: r, all: all, figures: map[place]row{}}
	g.rowFields = strings.Split(r.setting("rows", "policy"), "+")
	g.columnFields = strings.Split(r.setting("columns", "metric"), "+")
	g.lines, g.columns = r.keys(chosen, g.rowFields), r.keys(chosen, g.columnFields)
	for _, c := range chosen {
		at := place{key(c, g.rowFields), key(c, g.columnFields)}
		if old, twice := g.figures[at]; twice && old["value"] != c["value"] { // two sections may have measured one figure
			return grid{}, fmt.Errorf("two rows for one cell: %v and %v", old, c)
		}
		g.figures[at] = c
	}
	return g, nil
}

// head returns the heads of the table's columns.
func (g grid) head() []string {
	var heads []string
	if h := g.setting("head", ""); h != "" {
		heads = strings.Split(h, "+")
	} else {
		for _, f := range g.rowFields {
			heads = append(heads, g.name(f))
		}
	}
	for _, c := range g.columns {
		heads = append(heads, strings.Join(g.show(c, g.columnFields), ", "))
	}
	return heads
}

// text returns the cells of the table as text, by lines.
func (g grid) text() [][]string {
	var lines [][]string
	best := g.best()
	above := make([]string, len(g.rowFields))
	for _, line := range g.lines {
		cells := g.show(line, g.rowFields)
		blankRepeats(cells, above)
		for _, column := range g.columns {
			at, text := place{line, column}, ""
			if c, measured := g.figures[at]; measured {
				text = g.cell(c, g.all)
			}
			if best[at] {
				text = "**" + text + "**"
			}
			cells = append(cells, text)
		}
		lines = append(lines, cells)
	}
	return lines
}

// blankRepeats empties the values of a line's key that are the same in the lines above, except the last value. It
// updates above, which holds the values that the empty ones repeat.
func blankRepeats(values, above []string) {
	for i := range values[:len(values)-1] {
		if values[i] == above[i] && (i == 0 || values[i-1] == "") {
			values[i] = ""
		} else {
			above[i] = values[i]
			clear(above[i+1:])
		}
	}
}

// best returns the cells that are best among policies.
func (g grid) best() map[place]bool {
	order := g.setting("best", "")
	if order == "" {
		return nil
	}
	value := func(at place) float64 {
		v := parse(g.figures[at]["value"])
		if order == "most" {
			return -v
		}
		return v
	}
	best := map[place]bool{}
	for _, rivals := range g.rivals() {
		least := math.Inf(1)
		for _, at := range rivals {
			least = min(least, value(at))
		}
		for _, at := range rivals {
			best[at] = value(at) == least && len(rivals) > 1
		}
	}
	return best
}

// rivals returns groups of cells that differ only in their policy, by scenario, metric and load.
func (g grid) rivals() map[string][]place {
	groups := map[string][]place{}
	for at, c := range g.figures {
		if c["policy"] == "bound" || c["policy"] == "optimum" || c["than"] != "" || math.IsNaN(parse(c["value"])) {
			continue
		}
		group := key(c, []string{"scenario", "metric", "at"})
		groups[group] = append(groups[group], at)
	}
	return groups
}

// key returns the values of a row in these fields, joined by tabs.
func key(r row, fields []string) string {
	var values []string
	for _, f := range fields {
		values = append(values, r[f])
	}
	return strings.Join(values, "\t")
}

// keys returns the different keys of rows: in the order in which the request lists values, else by load, else in the
// order of the file.
func (r request) keys(rows []row, fields []string) []string {
	var keys []string
	of := map[string]row{}
	for _, line := range rows {
		k := key(line, fields)
		if _, seen := of[k]; !seen {
			keys, of[k] = append(keys, k), line
		}
	}
	slices.SortStableFunc(keys, func(a, b string) int {
		for _, f := range fields {
			order := r.list(f)
			if c := cmp.Compare(slices.Index(order, of[a][f]), slices.Index(order, of[b][f])); c != 0 {
				return c
			}
			x, e := strconv.ParseFloat(of[a][f], 64)
			y, e2 := strconv.ParseFloat(of[b][f], 64)
			if f == "at" && e == nil && e2 == nil && x != y {
				return cmp.Compare(x, y)
			}
		}
		return 0
	})
	return keys
}

// show returns how the table writes the values of a key.
func (r request) show(key string, fields []string) []string {
	values := strings.Split(key, "\t")
	for i, v := range values {
		named := r.name(v)
		switch {
		case named != v || v == "":
			values[i] = named
		case fields[i] == "policy" && v != "bound" && v != "optimum" && !strings.Contains(v, " "),
			fields[i] == "scenario" && !strings.Contains(v, " "):
			values[i] = span(v)
		case fields[i] == "than" && r.setting("columns", "") == strings.Join(fields, "+"):
			values[i] = "against " + span(v)
		case fields[i] == "than":
			values[i] = span(v)
		case fields[i] == "at":
			values[i] = v + " %"
		}
	}
	return values
}

// name returns the name that the request gives a value or a field, else the value itself.
func (r request) name(value string) string {
	for _, n := range r.list("names") {
		if i := strings.LastIndex(n, ":"); i >= 0 && n[:i] == value { // names of policies may contain a colon
			return n[i+1:]
		}
	}
	return value
}

// cell returns a figure as the table shows it.
func (r request) cell(c row, all []row) string {
	isDifference := c["than"] != "" && !strings.HasPrefix(c["metric"], "ratio")
	signed := func(v string) string {
		if isDifference && v != "" && v[0] >= '0' && v[0] <= '9' {
			v = "+" + v
		}
		return r.round(v)
	}
	within := func(low, high string) string {
		if low == "" {
			return ""
		}
		return " (" + signed(low) + " to " + signed(high) + ")"
	}
	var parts []string
	for _, what := range strings.Split(r.setting("show", "value"), ",") {
		switch what {
		case "value":
			parts = append(parts, signed(c["value"])+within(c["low"], c["high"]))
		case "mean":
			parts = append(parts, signed(c["value"]))
		case "percent":
			if c["percent"] == "" {
				continue
			}
			low, high := percentInterval(c, all)
			parts = append(parts, signed(c["percent"])+" %"+within(low, high))
		case "p":
			if c["p"] != "" {
				parts = append(parts, "p "+c["p"])
			}
		}
	}
	return strings.Join(parts, ", ")
}

// percentInterval returns the interval of a difference in percent of the baseline's mean, which is one of all; "" if
// that is missing.
func percentInterval(c row, all []row) (low, high string) {
	baseline := figureKey(c, c["section"], c["than"], "", c["metric"])
	for _, other := range all {
		if !other.has(baseline) {
			continue
		}
		mean, l, h := parse(other["value"]), parse(c["low"]), parse(c["high"])
		if mean == 0 || math.IsNaN(mean+l+h) {
			return "", ""
		}
		return fmt.Sprintf("%.1f", 100*l/mean), fmt.Sprintf("%.1f", 100*h/mean)
	}
	return "", ""
}

// parse returns a number; NaN for other text.
func parse(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// round rounds a number to decimals=, if set, and separates thousands by commas. Other text stays as it is.
func (r request) round(s string) string {
	v := parse(s)
	if math.IsNaN(v) {
		return s
	}
	if d := r.setting("decimals", ""); d != "" {
		n, _ := strconv.Atoi(d)
		sign := ""
		if strings.HasPrefix(s, "+") {
			sign = "+"
		}
		s = sign + strconv.FormatFloat(v, 'f', n, 64)
	}
	whole, decimals, has := strings.Cut(s, ".")
	digits := strings.TrimLeft(whole, "+-")
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	whole = whole[:len(whole)-len(strings.TrimLeft(whole, "+-"))] + digits
	if has {
		return whole + "." + decimals
	}
	return whole
}
