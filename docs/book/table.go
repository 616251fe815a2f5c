package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The producer table writes a Markdown table of a data file of docs/results/data:
//
//	<!-- generated: table cpu.csv section=scenarios scenario=hetero80,hetero95 policy=kube-scheduler,linear,dqn metric="over time" rows=scenario columns=policy best=least -->
//
// FIELD=V1,V2 keeps the rows of the file with these values, in this order; quotes hold values with spaces together. Without than=, differences are left
// out; than=fgd takes those from fgd, than=* all of them. rows= and columns= name the fields that make the table, several with + (rows=scenario+metric).
// A cell is the value; with its interval, if it has one, as "-1.2 (-1.4 to -1.0)", and a difference has its sign. The rest is optional:
//
//	best=least, best=most   the best of a line of policies (of a column, if policies are rows) is bold; bound and optimum do not count
//	show=value,percent,p    more than value, or less, in a cell; percent has the interval, as a part of the other policy's mean, too
//	names="over time:load imbalance,at:load in %"   what stands in the table instead
//	decimals=2              rounds
//	head="load"             the heads of the row fields, if not their names; several with +
func init() { producers["table"] = table }

func table(root, of string) (string, error) {
	r, err := parseRequest(of)
	if err != nil {
		return "", err
	}
	chosen, err := r.chosen(root)
	if err != nil {
		return "", err
	}
	all, err := readData(dataFile(root, r.file))
	if err != nil {
		return "", err
	}
	rowFields, columnFields := strings.Split(r.setting("rows", "policy"), "+"), strings.Split(r.setting("columns", "metric"), "+")
	lines, columns := r.keys(chosen, rowFields), r.keys(chosen, columnFields)
	cells := map[string]row{}
	for _, c := range chosen {
		at := key(c, rowFields) + "\n" + key(c, columnFields)
		if old, twice := cells[at]; twice && old["value"] != c["value"] { // two sections may have measured one figure
			return "", fmt.Errorf("two rows for one cell: %v and %v", old, c)
		}
		cells[at] = c
	}
	var heads []string
	if h := r.setting("head", ""); h != "" {
		heads = strings.Split(h, "+")
	} else {
		for _, f := range rowFields {
			heads = append(heads, r.name(f))
		}
	}
	for _, c := range columns {
		heads = append(heads, strings.Join(r.show(c, columnFields), ", "))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "| %s |\n|%s%s\n", strings.Join(heads, " | "), strings.Repeat("---|", len(rowFields)), strings.Repeat("--:|", len(columns)))
	bold := r.bold(cells, lines, columns, rowFields)
	above := make([]string, len(rowFields))
	for _, line := range lines {
		shown := r.show(line, rowFields)
		for i := range shown[:len(shown)-1] { // a key of several fields is not repeated
			if shown[i] == above[i] && (i == 0 || shown[i-1] == "") {
				shown[i] = ""
			} else {
				above[i] = shown[i]
				clear(above[i+1:])
			}
		}
		for _, column := range columns {
			text := ""
			if c, is := cells[line+"\n"+column]; is {
				text = r.cell(c, all)
				if bold[line+"\n"+column] {
					text = "**" + text + "**"
				}
			}
			shown = append(shown, text)
		}
		fmt.Fprintf(&out, "| %s |\n", strings.Join(shown, " | "))
	}
	return out.String(), nil
}

// key returns the values of fields, a line each.
func key(r row, fields []string) string {
	var values []string
	for _, f := range fields {
		values = append(values, r[f])
	}
	return strings.Join(values, "\t")
}

// keys returns the keys of rows, in the order that the request gives values, else in the file's.
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

// show returns what stands in the table for a key.
func (r request) show(key string, fields []string) []string {
	values := strings.Split(key, "\t")
	for i, v := range values {
		named := r.name(v)
		switch {
		case named != v || v == "":
			values[i] = named
		case fields[i] == "policy" && v != "bound" && v != "optimum" && !strings.Contains(v, " "), fields[i] == "scenario" && !strings.Contains(v, " "):
			values[i] = "`" + v + "`"
		case fields[i] == "than" && r.setting("columns", "") == strings.Join(fields, "+"):
			values[i] = "against `" + v + "`"
		case fields[i] == "than":
			values[i] = "`" + v + "`"
		case fields[i] == "at":
			values[i] = v + " %"
		}
	}
	return values
}

// name returns what stands for a value.
func (r request) name(value string) string {
	for _, n := range r.list("names") {
		if of, name, _ := cutLast(n, ":"); of == value {
			return name
		}
	}
	return value
}

// cutLast cuts at the last separator, since policies' names may have some.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// cell returns a figure as the table shows it.
func (r request) cell(c row, all []row) string {
	signed := func(v string) string {
		if c["than"] != "" && !strings.HasPrefix(c["metric"], "ratio") && !strings.HasPrefix(v, "-") && v != "" && v[0] >= '0' && v[0] <= '9' {
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

// percentInterval returns the interval of a difference as a part of the mean that it is taken from.
func percentInterval(c row, all []row) (low, high string) {
	for _, other := range all {
		if other["policy"] != c["than"] || other["than"] != "" || other["metric"] != c["metric"] || other["at"] != c["at"] ||
			other["section"] != c["section"] || other["scenario"] != c["scenario"] {
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

func parse(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// round rounds a number to the decimals that are asked for, and separates thousands.
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

// bold returns the cells that are best among policies.
func (r request) bold(cells map[string]row, lines, columns, rowFields []string) map[string]bool {
	best := r.setting("best", "")
	if best == "" {
		return nil
	}
	groups := map[string][]string{}
	for _, line := range lines {
		for _, column := range columns {
			c, is := cells[line+"\n"+column]
			if !is || c["policy"] == "bound" || c["policy"] == "optimum" || c["than"] != "" || math.IsNaN(parse(c["value"])) {
				continue
			}
			together := c["scenario"] + "\t" + c["metric"] + "\t" + c["at"]
			groups[together] = append(groups[together], line+"\n"+column)
		}
	}
	bold := map[string]bool{}
	for _, group := range groups {
		value := func(at string) float64 {
			v := parse(cells[at]["value"])
			if best == "most" {
				v = -v
			}
			return v
		}
		least := math.Inf(1)
		for _, at := range group {
			least = min(least, value(at))
		}
		for _, at := range group {
			if value(at) == least && len(group) > 1 {
				bold[at] = true
			}
		}
	}
	return bold
}
