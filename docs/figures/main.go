// Figures writes the tables and plots of the docs from the data files of docs/results/data.
//
// A generated part stands in a page between two comments. The first says what to write:
//
//	<!-- generated: table cpu.csv section=scenarios scenario=hetero95 metric="over time" -->
//	…
//	<!-- end -->
//
// `go run ./docs/figures` rewrites all tables and plots and prints the files that it changed. `go run ./docs/figures SECTION METRICS` reads
// the JSON of gnnsched eval instead, and prints its figures as rows of a data file.
package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gnnsched/internal/each"
	"gnnsched/scheduler/eval"
)

// part matches a table or a plot, with the rest of the comment.
var part = regexp.MustCompile(`(?s)<!-- generated: (table|plot) ([^\n]*?) -->\n.*?<!-- end -->`)

func main() {
	log.SetFlags(0)
	if len(os.Args) == 3 {
		metrics, err := eval.ParseMetrics(os.Args[2])
		if err == nil {
			err = writeRows(os.Args[1], metrics, os.Stdin, os.Stdout)
		}
		if err != nil {
			log.Fatal(err)
		}
		return
	}
	fresh, err := render(".")
	if err != nil {
		log.Fatal(err)
	}
	for file, text := range fresh {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			log.Fatal(err)
		}
		fmt.Println(file)
	}
}

// render returns the pages and plots of the repository at root that are stale, by their paths, with their new contents.
func render(root string) (map[string][]byte, error) {
	pages := []string{filepath.Join(root, "README.md")}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	fresh := map[string][]byte{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		plots, err := filepath.Rel(filepath.Dir(page), filepath.Join(root, "docs", "results", "plots"))
		if err != nil {
			return nil, err
		}
		fresh[page] = part.ReplaceAllFunc(text, func(old []byte) []byte {
			m := part.FindSubmatch(old)
			text, e := produce(root, string(m[1]), string(m[2]), fresh)
			if e == nil && bytes.Count(old, []byte("<!-- generated:")) > 1 {
				e = errors.New("no <!-- end --> comes before the next part")
			}
			if e != nil {
				err = errors.Join(err, fmt.Errorf("%s: %s %s: %w", page, m[1], m[2], e))
			}
			text = strings.Replace(text, "](plots/", "]("+filepath.ToSlash(plots)+"/", 1)
			first, _, _ := bytes.Cut(old, []byte("\n"))
			return []byte(string(first) + "\n\n" + strings.TrimSpace(text) + "\n\n<!-- end -->")
		})
		if err != nil {
			return nil, err
		}
	}
	for path, text := range fresh {
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
			delete(fresh, path)
		}
	}
	return fresh, nil
}

// produce returns a table, or the line that shows a plot, which it adds to files.
func produce(root, kind, of string, files map[string][]byte) (string, error) {
	r, err := parseRequest(of)
	if err != nil {
		return "", err
	}
	if r.all, err = readData(filepath.Join(root, "docs", "results", "data", r.file)); err != nil {
		return "", err
	}
	chosen, err := r.chosen()
	if err != nil {
		return "", err
	}
	if kind == "table" {
		return r.table(chosen)
	}
	name := r.setting("out", "plot")
	files[filepath.Join(root, "docs", "results", "plots", name+".svg")], err = r.plot(chosen)
	return fmt.Sprintf("![%s](plots/%s.svg)", r.setting("title", name), name), err
}

// A row of a data file is one figure. Its fields hold text as a command printed it; a field that does not apply is empty.
//
//	section   the comparison; sources.csv has the command that measured it
//	scenario  the workload
//	policy    the policy that was measured
//	than      the policy that a difference is taken from; empty for the figure itself
//	metric    the metric
//	at        the load, in % or what the section says
//	value     the mean, or the mean difference
//	low, high its 95 % interval
//	percent   the difference in percent of the other policy's mean
//	p         the p-value of Wilcoxon's signed-rank test, adjusted by Holm
type row map[string]string

// readData returns the rows of a data file. Its first line names its columns.
func readData(path string) ([]row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil || len(lines) == 0 {
		return nil, err
	}
	var rows []row
	for _, line := range lines[1:] {
		r := row{}
		for i, name := range lines[0] {
			r[name] = line[i]
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// A request is the content of the comment of a generated part: a data file, then settings KEY=VALUE. A value with spaces
// stands in double quotes.
type request struct {
	file     string
	all      []row // of the file
	settings map[string]string
}

// layout are the settings that say how a part looks. Every other setting chooses rows.
var layout = []string{
	"below", "best", "columns", "decimals", "from", "head", "kind", "legend", "lines", "names", "out", "rows", "show", "title", "to",
	"x", "xlabel", "y", "ylabel",
}

// word matches a word of a request; double quotes hold spaces.
var word = regexp.MustCompile(`(?:[^ "]|"[^"]*")+`)

// parseRequest reads a request.
func parseRequest(of string) (request, error) {
	words := word.FindAllString(strings.TrimSpace(of), -1)
	if len(words) == 0 || strings.Contains(words[0], "=") {
		return request{}, errors.New("no file is named")
	}
	r := request{file: words[0], settings: map[string]string{}}
	for _, w := range words[1:] {
		key, value, found := strings.Cut(strings.ReplaceAll(w, `"`, ""), "=")
		if !found {
			return r, fmt.Errorf("%q is no setting: write KEY=VALUE", w)
		}
		r.settings[key] = value
	}
	return r, nil
}

// setting returns a setting, or otherwise if it is not set.
func (r request) setting(key, otherwise string) string {
	if v, set := r.settings[key]; set {
		return v
	}
	return otherwise
}

// list returns the values of a setting, which commas separate.
func (r request) list(key string) []string {
	if v := r.settings[key]; v != "" {
		return strings.Split(v, ",")
	}
	return nil
}

// chosen returns the rows with the values that the request asks for, in the file's order. Without than=, it leaves out
// differences.
func (r request) chosen() (rows []row, err error) {
	if len(r.all) == 0 {
		return nil, fmt.Errorf("%s has no rows", r.file)
	}
	for key := range r.settings {
		if _, field := r.all[0][key]; !field && !slices.Contains(layout, key) {
			return nil, fmt.Errorf("%s has no column %s, and no part a setting of this name", r.file, key)
		}
	}
	for _, line := range r.all {
		fits := true
		for key, value := range line {
			_, asked := r.settings[key]
			switch values := r.list(key); {
			case len(values) > 0 && values[0] == "*":
				fits = fits && value != ""
			case len(values) > 0:
				fits = fits && slices.Contains(values, value)
			case asked || key == "than":
				fits = fits && value == ""
			}
		}
		if fits {
			rows = append(rows, line)
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no row of %s fits", r.file)
	}
	return rows, nil
}

// scenarioAtLoad matches the name of a scenario that was made for a load, such as hetero-95.
var scenarioAtLoad = regexp.MustCompile(`^([a-z0-9]+)-([0-9]{2})$`)

// writeRows reads comparisons that `gnnsched eval -o json` wrote, and writes their means and differences as rows of a data file.
func writeRows(section string, metrics []eval.Metric, from io.Reader, to io.Writer) error {
	all, err := eval.ReadJSON(from)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, c := range all {
		scenario, load := c.Scenario.Name, ""
		if m := scenarioAtLoad.FindStringSubmatch(scenario); m != nil {
			scenario, load = m[1], m[2]
		}
		shown := slices.DeleteFunc(slices.Clone(metrics), func(m eval.Metric) bool { return !c.Shows(m) })
		differences := eval.Judge(c.Columns(shown...)...)
		for i, r := range c.Results {
			for k, m := range shown {
				text := func(v float64) string { return strconv.FormatFloat(v, 'f', m.Digits, 64) }
				rows = append(rows, []string{section, scenario, r.Name, "", m.Title, load, text(r.Mean(m)), "", "", "", ""})
				d := differences[k][i]
				if d == nil {
					continue
				}
				p := strings.TrimRight(d.Chance(), " *?")
				row := []string{section, scenario, r.Name, c.Results[0].Name, m.Title, load, text(d.Mean), "", "", "", p}
				if d.Samples > 1 {
					row[7], row[8] = text(d.Low), text(d.High)
				}
				if d.Relative != nil {
					row[9] = fmt.Sprintf("%.1f", 100**d.Relative)
				}
				rows = append(rows, row)
			}
		}
	}
	return csv.NewWriter(to).WriteAll(rows)
}

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
	head = append(head, each.Map(across, func(c string) string { return strings.Join(r.show(c, columns), ", ") })...)
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
	values := each.Map(fields, func(f string) string { return r[f] })
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
