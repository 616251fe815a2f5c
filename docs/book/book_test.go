package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const printed = `### hetero80

Means over 3 paired seeds (101 to 103), less is better:

| policy         | over time | unscheduled |
|:---------------|----------:|------------:|
| kube-scheduler |    0.1001 |         6.9 |
| dqn            |    0.0856 |     1,005.6 |

Difference from kube-scheduler on the same seeds: mean, 95% interval, and p:

| metric    | policy | difference |       95% interval | relative | adjusted p |
|:----------|-------:|-----------:|-------------------:|---------:|-----------:|
| over time | dqn    |    -0.0145 | -0.0160 to -0.0129 |   -14.5% |   <1e-09 * |

### default

Difference from fgd in points, with 95% intervals:

| policy  |                    95% |
|:--------|-----------------------:|
| gpu-gnn | +0.04 (+0.01 to +0.11) |
`

// The Markdown of eval becomes rows, and rows become tables and plots.
func TestDataOfMarkdown(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"data", "plots"} {
		if err := os.MkdirAll(filepath.Join(root, "docs/results", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := tidyOptions{section: "scenarios"}
	for _, seeds := range []string{"3 from 101", "3 from 101", "1 from 101"} { // each time replaces the rows
		write.source = row{"command": "make results", "seeds": seeds}
		if err := tidy(dataFile(root, "cpu.csv"), strings.NewReader(printed), write); err != nil {
			t.Fatal(err)
		}
	}
	sources, err := os.ReadFile(dataFile(root, "sources.csv"))
	if want := "cpu.csv,scenarios,make results,,,3 from 101; 1 from 101\n"; err != nil || !strings.HasSuffix(string(sources), want) {
		t.Errorf("sources %v:\n%s\nwant at the end %s", err, sources, want)
	}
	got, err := os.ReadFile(dataFile(root, "cpu.csv"))
	if err != nil {
		t.Fatal(err)
	}
	want := `section,scenario,policy,than,metric,at,value,low,high,percent,p
scenarios,hetero80,kube-scheduler,,over time,,0.1001,,,,
scenarios,hetero80,kube-scheduler,,unscheduled,,6.9,,,,
scenarios,hetero80,dqn,,over time,,0.0856,,,,
scenarios,hetero80,dqn,,unscheduled,,1005.6,,,,
scenarios,hetero80,dqn,kube-scheduler,over time,,-0.0145,-0.0160,-0.0129,-14.5,<1e-09
scenarios,default,gpu-gnn,fgd,GPU allocation %,95,0.04,0.01,0.11,,
`
	if string(got) != want {
		t.Errorf("data:\n%s\nwant:\n%s", got, want)
	}
	for of, want := range map[string]string{
		`cpu.csv scenario=hetero80 metric="over time,unscheduled" rows=policy columns=metric best=least names="over time:imbalance"`: "" +
			"| policy | imbalance | unscheduled |\n|---|--:|--:|\n| `kube-scheduler` | 0.1001 | **6.9** |\n| `dqn` | **0.0856** | 1,005.6 |\n",
		`cpu.csv scenario=hetero80 than=kube-scheduler rows=scenario columns=policy show=value,percent,p`: "" +
			"| scenario | `dqn` |\n|---|--:|\n| `hetero80` | -0.0145 (-0.0160 to -0.0129), -14.5 % (-16.0 to -12.9), p <1e-09 |\n",
		`cpu.csv scenario=default than=* rows=policy columns=at`: "| policy | 95 % |\n|---|--:|\n| `gpu-gnn` | +0.04 (+0.01 to +0.11) |\n",
	} {
		if got, err := table(root, of); err != nil || got != want {
			t.Errorf("table %s: %v\n%s\nwant\n%s", of, err, got, want)
		}
	}
	for _, of := range []string{
		`cpu.csv scenario=none`,
		`cpu.csv scenario=hetero80 than=* rows=scenario columns=scenario metric="over time,unscheduled" than=`,
	} {
		if _, err := table(root, of); err == nil {
			t.Errorf("table %s has no error", of)
		}
	}
	of := `cpu.csv out=x kind=dots than=* scenario=hetero80 show=percent title=X`
	if got, err := plotted(root, of); err != nil || got != "![X](plots/x.svg)" {
		t.Errorf("plot: %q %v", got, err)
	}
	path := filepath.Join(root, "docs/results/plots/x.svg")
	first := string(drawn[path])
	if _, err := plotted(root, of); err != nil || first != string(drawn[path]) || !strings.Contains(first, "hetero80") {
		t.Error("the plot is not the same twice, or without its row")
	}
	delete(drawn, path)
}
