package main

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// table writes a Markdown table of a data file of docs/results/data:
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
func (r request) table(chosen []row) (string, error) {
	rows, columns := strings.Split(r.setting("rows", "policy"), "+"), strings.Split(r.setting("columns", "metric"), "+")
	figures := map[[2]string]row{} // by the keys of their line and column
	for _, c := range chosen {
		at := [2]string{key(c, rows), key(c, columns)}
		if old, twice := figures[at]; twice && old["value"] != c["value"] { // two sections may have measured one figure
			return "", fmt.Errorf("two rows for one cell: %v and %v", old, c)
		}
		figures[at] = c
	}
	head := strings.Split(r.setting("head", strings.Join(rows, "+")), "+")
	for i := range head {
		head[i] = r.name(head[i])
	}
	across := r.keys(chosen, columns)
	for _, c := range across {
		head = append(head, strings.Join(r.show(c, columns), ", "))
	}
	lines := [][]string{head}
	above := make([]string, len(rows))
	for _, line := range r.keys(chosen, rows) {
		cells := r.show(line, rows)
		blankRepeats(cells, above)
		for _, column := range across {
			c, measured := figures[[2]string{line, column}]
			switch {
			case !measured:
				cells = append(cells, "")
			case r.best(c, figures):
				cells = append(cells, "**"+r.cell(c)+"**")
			default:
				cells = append(cells, r.cell(c))
			}
		}
		lines = append(lines, cells)
	}
	lines = slices.Insert(lines, 1, slices.Concat(slices.Repeat([]string{"---"}, len(rows)), slices.Repeat([]string{"--:"}, len(across))))
	return markdown(lines), nil
}

// markdown returns lines of cells as a table, whose second line is the rule below the heads.
func markdown(lines [][]string) string {
	var out strings.Builder
	for i, cells := range lines {
		for _, c := range cells {
			if i != 1 {
				c = " " + strings.ReplaceAll(c, "|", `\|`) + " "
			}
			out.WriteString("|" + c)
		}
		out.WriteString("|\n")
	}
	return out.String()
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

// best reports whether a figure is the best of two or more that differ only in their policy, by scenario, metric and load.
func (r request) best(c row, figures map[[2]string]row) bool {
	sign := map[string]float64{"least": 1, "most": -1}[r.setting("best", "")]
	if sign == 0 || !competes(c) {
		return false
	}
	group, rivals := []string{"scenario", "metric", "at"}, 0
	for _, other := range figures {
		if !competes(other) || key(other, group) != key(c, group) {
			continue
		}
		if rivals++; sign*parse(other["value"]) < sign*parse(c["value"]) {
			return false
		}
	}
	return rivals > 1
}

// competes reports whether a row is a policy's own figure.
func competes(c row) bool {
	return c["policy"] != "bound" && c["policy"] != "optimum" && c["than"] == "" && !math.IsNaN(parse(c["value"]))
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
			if x, y := parse(of[a][f]), parse(of[b][f]); f == "at" && x != y && !math.IsNaN(x+y) {
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
			values[i] = "`" + v + "`"
		case fields[i] == "than" && r.setting("columns", "") == "than":
			values[i] = "against `" + v + "`"
		case fields[i] == "than":
			values[i] = "`" + v + "`"
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
func (r request) cell(c row) string {
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
			low, high := r.percentInterval(c)
			parts = append(parts, signed(c["percent"])+" %"+within(low, high))
		case "p":
			if c["p"] != "" {
				parts = append(parts, "p "+c["p"])
			}
		}
	}
	return strings.Join(parts, ", ")
}

// percentInterval returns the interval of a difference in percent of the baseline's mean; "" if that is missing.
func (r request) percentInterval(c row) (low, high string) {
	for _, other := range r.all {
		if other["policy"] != c["than"] || other["than"] != "" ||
			key(other, []string{"section", "scenario", "metric", "at"}) != key(c, []string{"section", "scenario", "metric", "at"}) {
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

// thousands matches the places in a number before which a comma stands, from the left.
var thousands = regexp.MustCompile(`^([+-]?\d+)(\d{3})([,.].*)?$`)

// round rounds a number to decimals=, if set, and separates thousands by commas. Other text stays as it is.
func (r request) round(s string) string {
	v := parse(s)
	if math.IsNaN(v) {
		return s
	}
	if d, err := strconv.Atoi(r.setting("decimals", "")); err == nil {
		sign := s[:len(s)-len(strings.TrimLeft(s, "+"))]
		s = sign + strconv.FormatFloat(v, 'f', d, 64)
	}
	for thousands.MatchString(s) {
		s = thousands.ReplaceAllString(s, "$1,$2$3")
	}
	return s
}
