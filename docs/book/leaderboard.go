package main

import (
	"fmt"
	"path/filepath"
	"strconv"

	"gnnsched/scheduler/eval/bench"
)

// leaderboard writes the tables of docs/leaderboard.md from the files of docs/results/leaderboard:
//
//	<!-- generated: leaderboard set -->    the scenarios and seeds of the frozen set
//	<!-- generated: leaderboard test -->   the results of a split, a table for each scenario
func leaderboard(root, of string) (string, error) {
	if of == "set" {
		return frozenSet()
	}
	split := bench.Split(of)
	if split.Seeds() == nil {
		return "", fmt.Errorf("there is no split %q", of)
	}
	all, err := bench.Read(filepath.Join(root, "docs/results/leaderboard"))
	if err != nil {
		return "", err
	}
	out := ""
	var sources [][]string
	for _, r := range all {
		if r.Split == split {
			sources = append(sources, []string{strconv.Itoa(len(sources) + 1), "`" + r.Command + "`", "`" + r.Commit + "`", r.Version, r.Date,
				r.Machine, r.By})
		}
	}
	for _, t := range bench.Tasks {
		var rows [][]string
		source := 0
		for _, r := range all {
			if r.Split != split {
				continue
			}
			source++
			for _, x := range r.Rows {
				if x.Scenario != t.Scenario {
					continue
				}
				difference := "–"
				if d := x.Difference; d != nil {
					difference = fmt.Sprintf("%+.4f (%+.4f to %+.4f) %s", d.Mean, d.Low, d.High, x.Mark)
				}
				rows = append(rows, []string{"`" + x.Policy + "`", string(x.Kind), fmt.Sprintf("%.4f", x.Cost), difference,
					fmt.Sprintf("%.1f", x.Unscheduled), strconv.Itoa(source)})
			}
		}
		if len(rows) > 0 {
			out += fmt.Sprintf("\n**%s** (`%s`)\n\n", t.About, t.Scenario) +
				markdownTable([]string{"policy", "kind", "objective", "difference from the first", "unscheduled", "file"}, rows, 2, 4)
		}
	}
	if out == "" {
		return "Nobody has played it yet.\n", nil
	}
	return out + "\n" + markdownTable([]string{"file", "command", "commit", "version", "date", "machine", "signed off by"}, sources), nil
}

func frozenSet() (string, error) {
	version, err := bench.Version()
	if err != nil {
		return "", err
	}
	var rows [][]string
	for _, t := range bench.Tasks {
		rows = append(rows, []string{t.About, t.Train, "`" + t.Scenario + "`"})
	}
	out := fmt.Sprintf("Version `%s`.", version)
	for _, s := range []bench.Split{bench.Validation, bench.Test} {
		out += fmt.Sprintf(" %s: seeds %d to %d.", s, s.Seeds()[0], s.Seeds()[bench.Episodes-1])
	}
	return out + "\n\n" + markdownTable([]string{"task", "train on", "validate and test on"}, rows), nil
}
