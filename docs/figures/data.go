package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"regexp"
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
