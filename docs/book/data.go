package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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

// has reports whether a row has these values in these fields.
func (r row) has(fields row) bool {
	for key, v := range fields {
		if r[key] != v {
			return false
		}
	}
	return true
}

// fields are the fields of a row, in the order of the files.
var fields = []string{"section", "scenario", "policy", "than", "metric", "at", "value", "low", "high", "percent", "p"}

// dataFile returns the path of a data file.
func dataFile(root, name string) string { return filepath.Join(root, "docs", "results", "data", name) }

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

// writeData writes rows into a data file, with these fields as columns.
func writeData(path string, fields []string, rows []row) error {
	var text strings.Builder
	w := csv.NewWriter(&text)
	lines := [][]string{fields}
	for _, r := range rows {
		var line []string
		for _, name := range fields {
			line = append(line, r[name])
		}
		lines = append(lines, line)
	}
	if err := w.WriteAll(lines); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

// A request is the content of the comment of a generated part: a data file, then settings KEY=VALUE. A value with spaces
// stands in double quotes.
type request struct {
	file     string
	settings map[string]string
}

// layout are the settings that say how a part looks. Every other setting chooses rows.
var layout = []string{
	"below", "best", "columns", "decimals", "from", "head", "kind", "legend", "lines", "names", "out", "rows", "show", "title", "to",
	"x", "xlabel", "y", "ylabel",
}

// parseRequest reads a request.
func parseRequest(of string) (request, error) {
	r := request{settings: map[string]string{}}
	for _, word := range words(of) {
		key, value, found := strings.Cut(word, "=")
		switch {
		case found:
			r.settings[key] = value
		case r.file == "":
			r.file = word
		default:
			return r, fmt.Errorf("%q is no setting: write KEY=VALUE", word)
		}
	}
	if r.file == "" {
		return r, fmt.Errorf("no file is named")
	}
	return r, nil
}

// words splits at spaces outside double quotes.
func words(s string) []string {
	quoted := false
	return strings.FieldsFunc(strings.Map(func(c rune) rune {
		switch {
		case c == '"':
			quoted = !quoted
			return -1
		case c == ' ' && quoted:
			return '\u00a0'
		}
		return c
	}, s), func(c rune) bool { return c == ' ' })
}

// setting returns a setting, or otherwise if it is not set.
func (r request) setting(key, otherwise string) string {
	if v, set := r.settings[key]; set {
		return strings.ReplaceAll(v, "\u00a0", " ")
	}
	return otherwise
}

// list returns the values of a setting, which commas separate.
func (r request) list(key string) []string {
	if v := r.setting(key, ""); v != "" {
		return strings.Split(v, ",")
	}
	return nil
}

// chosen returns the rows with the values that the request asks for, in the file's order. Without than=, it leaves out
// differences.
func (r request) chosen(root string) ([]row, error) {
	rows, err := readData(dataFile(root, r.file))
	if err != nil || len(rows) == 0 {
		return nil, cmp.Or(err, fmt.Errorf("%s has no rows", r.file))
	}
	for key := range r.settings {
		if _, field := rows[0][key]; !field && !slices.Contains(layout, key) {
			return nil, fmt.Errorf("%s has no column %s, and no part a setting of this name", r.file, key)
		}
	}
	keep := rows[:0]
	for _, line := range rows {
		fits := true
		for key := range line {
			values := r.list(key)
			if _, asked := r.settings[key]; asked && len(values) == 0 {
				values = []string{""}
			} else if !asked && key == "than" {
				values = []string{""}
			}
			if len(values) > 0 && values[0] == "*" {
				fits = fits && line[key] != ""
			} else if len(values) > 0 && !slices.Contains(values, line[key]) {
				fits = false
			}
		}
		if fits {
			keep = append(keep, line)
		}
	}
	if len(keep) == 0 {
		return nil, fmt.Errorf("no row of %s fits", r.file)
	}
	return keep, nil
}
