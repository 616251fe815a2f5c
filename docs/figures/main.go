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
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

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
