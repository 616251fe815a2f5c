package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// tidyOptions say which figures in the Markdown of gnnsched eval become rows of a data file.
type tidyOptions struct {
	section string
	metrics []string // empty: all metrics
	at      []string // empty: all loads. Figures without a load are always kept
	source  row      // command, commit, date and seeds for sources.csv; empty: sources.csv stays as it is
}

// tidy replaces rows of the data file at path by the figures of the Markdown tables that it reads. It replaces a row
// if there is a new figure of the same section and scenario, at the same load or with no load on either side.
func tidy(path string, from io.Reader, o tidyOptions) error {
	fresh, err := o.read(from)
	if err != nil {
		return err
	}
	if len(fresh) == 0 {
		return fmt.Errorf("no table has such figures")
	}
	rows, err := readData(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	rows = slices.DeleteFunc(rows, func(old row) bool {
		return slices.ContainsFunc(fresh, func(r row) bool {
			sameLoad := r["at"] == old["at"] || r["at"] == "" || old["at"] == ""
			return r["section"] == old["section"] && r["scenario"] == old["scenario"] && sameLoad
		})
	})
	if err := writeData(path, fields, append(rows, fresh...)); err != nil || len(o.source) == 0 {
		return err
	}
	return o.note(filepath.Join(filepath.Dir(path), "sources.csv"), filepath.Base(path))
}

// note writes into sources.csv where the section of a data file comes from.
func (o tidyOptions) note(sources, file string) error {
	rows, err := readData(sources)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	source := row{"file": file, "section": o.section}
	maps.Copy(source, o.source)
	at := slices.IndexFunc(rows, func(r row) bool { return r["file"] == file && r["section"] == o.section })
	if at >= 0 {
		if was := rows[at]; was["commit"] == source["commit"] && was["command"] == source["command"] &&
			!slices.Contains(strings.Split(was["seeds"], "; "), source["seeds"]) {
			source["seeds"] = was["seeds"] + "; " + source["seeds"] // the section has other seeds in other tables
		}
		rows[at] = source
	} else {
		rows = append(rows, source)
	}
	return writeData(sources, []string{"file", "section", "command", "commit", "date", "seeds"}, rows)
}

// read returns the wanted figures of all tables.
func (o tidyOptions) read(from io.Reader) ([]row, error) {
	var rows []row
	var table evalTable
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if !strings.HasPrefix(line, "|") {
			table.readText(line)
			continue
		}
		for _, r := range table.readLine(line) {
			if o.wants(r) {
				r["section"] = o.section
				rows = append(rows, r)
			}
		}
	}
	return rows, lines.Err()
}

var number = regexp.MustCompile(`^[+-]?[0-9.]+(e[+-]?[0-9]+)?$`)

// wants reports whether a figure becomes a row: it must be a number or a verdict, of a wanted metric and load.
func (o tidyOptions) wants(r row) bool {
	if len(o.metrics) > 0 && !slices.Contains(o.metrics, r["metric"]) {
		return false
	}
	if len(o.at) > 0 && r["at"] != "" && !slices.Contains(o.at, r["at"]) {
		return false
	}
	return r["metric"] == "verdict" || number.MatchString(r["value"])
}
