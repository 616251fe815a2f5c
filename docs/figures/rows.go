package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gnnsched/scheduler/eval"
)

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
