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

// tidied says which figures of the Markdown of gnnsched eval become rows of a data file.
type tidied struct {
	section string
	metrics []string // all if empty
	at      []string // all if empty; figures without a load stay
	source  row      // command, commit, date and seeds, if sources.csv is to have them
}

var (
	heading  = regexp.MustCompile("^#+ (.*)$")
	baseline = regexp.MustCompile("[Dd]ifferences? from `?([^ `]+)`?")
	loadHead = regexp.MustCompile(`^(?:at )?([0-9.]+) ?%$`)
	spread   = regexp.MustCompile(`^(\S+) \(?(\S+) to (\S+?)\)?$`) // a figure and its interval
	counted  = regexp.MustCompile(`^(\S+) \(([0-9.,]+)\)$`)        // a figure, and pods without a node
	atLoad   = regexp.MustCompile(`^([a-z0-9]+)-([0-9]{2})$`)      // a scenario at another load
	number   = regexp.MustCompile(`^[+-]?[0-9.]+(e[+-]?[0-9]+)?$`)
)

// tidy replaces the rows of a section of a data file by the figures of the tables on r.
func tidy(path string, from io.Reader, t tidied) error {
	fresh, err := t.read(from)
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
			return r["section"] == old["section"] && r["scenario"] == old["scenario"] && (r["at"] == old["at"] || r["at"] == "" || old["at"] == "")
		})
	})
	if err := writeData(path, fields, append(rows, fresh...)); err != nil || len(t.source) == 0 {
		return err
	}
	return t.note(filepath.Join(filepath.Dir(path), "sources.csv"), filepath.Base(path))
}

// note writes where the section of a data file comes from into sources.csv.
func (t tidied) note(sources, file string) error {
	rows, err := readData(sources)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	source := row{"file": file, "section": t.section}
	maps.Copy(source, t.source)
	at := slices.IndexFunc(rows, func(r row) bool { return r["file"] == file && r["section"] == t.section })
	if at >= 0 {
		rows[at] = source
	} else {
		rows = append(rows, source)
	}
	return writeData(sources, []string{"file", "section", "command", "commit", "date", "seeds"}, rows)
}

// read returns the figures of all tables on r.
func (t tidied) read(r io.Reader) ([]row, error) {
	var rows []row
	var head []string
	scenario, load, caption, than := "", "", "", ""
	above := map[string]string{} // the keys of the line above, which a table may leave out
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if m := heading.FindStringSubmatch(line); m != nil {
			scenario, caption, than = m[1], "", ""
			load = ""
			if m := atLoad.FindStringSubmatch(scenario); m != nil {
				scenario, load = m[1], m[2]
			}
		}
		if !strings.HasPrefix(line, "|") {
			if head != nil && line != "" {
				caption = ""
			}
			if line != "" {
				head, caption = nil, caption+" "+line
			} else if head != nil {
				head, caption = nil, ""
			}
			if m := baseline.FindStringSubmatch(caption); m != nil {
				than = strings.TrimRight(m[1], ".,:")
			}
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.NewReplacer("`", "", "**", "").Replace(strings.TrimSpace(cells[i]))
		}
		switch {
		case head == nil:
			head, above = cells, map[string]string{}
		case strings.Trim(line, "|:- ") == "":
		default:
			rows = append(rows, t.line(head, cells, above, row{"section": t.section, "scenario": scenario, "at": load}, caption, than)...)
		}
	}
	return rows, lines.Err()
}

// line returns the figures of a line of a table.
func (t tidied) line(head, cells []string, above map[string]string, common row, caption, than string) []row {
	for i, name := range head[:min(len(head), len(cells))] {
		key, is := map[string]string{"policy": "policy", "profile": "policy", "best network": "policy", "load": "at", "scenario": "scenario", "mix": "scenario",
			"pod list": "scenario", "workload": "scenario", "metric": "metric", "best without": "than", "class": "class", "machines": "scenario"}[name]
		if !is {
			continue
		}
		if cells[i] != "" {
			above[key] = strings.TrimSuffix(cells[i], "%")
		}
		common[key] = strings.TrimSpace(above[key])
	}
	common["class"] = ""
	if above["first"] == "" {
		above["first"] = common["policy"]
	}
	if than == "" { // a table of one seed does not say from whom its differences are
		than = above["first"]
	}
	var rows []row
	add := func(metric, than, at, value string) {
		r := row{}
		for k, v := range common {
			r[k] = v
		}
		if metric != "" {
			r["metric"] = metric
		}
		r["than"] = than
		if at != "" {
			r["at"] = at
		}
		r.set(value)
		rows = append(rows, r)
	}
	last, at := "", "" // the metric and the load of the figure before
	for i, name := range head[:min(len(head), len(cells))] {
		cell, _, _ := strings.Cut(cells[i], " ± ")
		switch load := loadHead.FindStringSubmatch(name); {
		case slices.Contains([]string{"policy", "profile", "best network", "load", "scenario", "mix", "pod list", "workload", "metric", "best without", "class", "machines"}, name):
		case cell == "" || cell == "–":
			if !slices.Contains([]string{"difference", "difference %", "saving", "adjusted p", "p"}, name) {
				last = name
			}
		case name == "objective" && strings.Contains(cell, " → "): // of a verdict
			without, with, _ := strings.Cut(cell, " → ")
			network, other := common["policy"], common["than"]
			common["policy"] = other
			add("over time", "", "", without)
			common["policy"] = network
			add("over time", "", "", with)
			last, than = "over time", other
		case name == "unscheduled" && strings.Contains(cell, " → "):
		case name == "verdict":
			add("verdict", than, "", cell)
			rows[len(rows)-1]["value"] = cell
		case load != nil:
			metric := "GPU allocation %"
			if strings.Contains(caption, "Saving in %") {
				metric = "saving %"
			}
			other := ""
			if strings.Contains(caption, "Difference from") {
				other = than
			}
			if m := counted.FindStringSubmatch(cell); m != nil {
				add("unscheduled", "", load[1], m[2])
				cell = m[1]
			}
			add(metric, other, load[1], cell)
			if at = ""; strings.HasPrefix(name, "at ") {
				at = load[1]
			}
		case name == "95% interval" && len(rows) > 0:
			rows[len(rows)-1].set(rows[len(rows)-1]["value"] + " " + cell)
		case name == "relative" && len(rows) > 0:
			rows[len(rows)-1]["percent"] = strings.Trim(cell, "+%")
		case (name == "adjusted p" || name == "p") && len(rows) > 0:
			rows[len(rows)-1]["p"] = strings.TrimRight(cell, " *?")
		case name == "difference" || name == "difference %" || name == "saving":
			metric := last
			if name == "saving" {
				metric = "saving %"
			} else if name == "difference %" {
				metric = last + " in %"
			} else if last == "" && common["metric"] == "" {
				metric = "GPU allocation %"
			}
			value, percent, _ := strings.Cut(cell, " (")
			if strings.HasSuffix(percent, "%)") {
				cell = value
			}
			add(metric, than, "", cell)
			if strings.HasSuffix(percent, "%)") {
				rows[len(rows)-1]["percent"] = strings.Trim(percent, "+%)")
			}
		default:
			if name == "turned away" {
				name = "rejected"
			}
			add(name, "", at, cell)
			last = name
		}
	}
	return slices.DeleteFunc(rows, func(r row) bool {
		return len(t.metrics) > 0 && !slices.Contains(t.metrics, r["metric"]) || len(t.at) > 0 && r["at"] != "" && !slices.Contains(t.at, r["at"]) ||
			r["metric"] != "verdict" && !number.MatchString(r["value"])
	})
}

// set writes a figure, which may have an interval, into a row.
func (r row) set(figure string) {
	plain := func(s string) string {
		return strings.TrimPrefix(strings.NewReplacer(",", "", "%", "").Replace(s), "+")
	}
	if m := spread.FindStringSubmatch(figure); m != nil {
		r["value"], r["low"], r["high"] = plain(m[1]), plain(m[2]), plain(m[3])
		return
	}
	r["value"] = plain(figure)
}
