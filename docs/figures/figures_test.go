package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const data = `section,scenario,policy,than,metric,at,value,low,high,percent,p
scenarios,hetero80,kube-scheduler,,over time,,0.1001,,,,
scenarios,hetero80,kube-scheduler,,unscheduled,,6.9,,,,
scenarios,hetero80,dqn,,over time,,0.0856,,,,
scenarios,hetero80,dqn,,unscheduled,,1005.6,,,,
scenarios,hetero80,dqn,kube-scheduler,over time,,-0.0145,-0.0160,-0.0129,-14.5,<1e-09
scenarios,default,gpu-gnn,fgd,GPU allocation %,95,0.04,0.01,0.11,,
`

// Rows of a data file become tables and plots.
func TestTablesAndPlots(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "docs/results/data"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "docs/results/data/cpu.csv"), []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	for of, want := range map[string]string{
		`cpu.csv scenario=hetero80 metric="over time,unscheduled" rows=policy columns=metric best=least names="over time:imbalance"`: "" +
			"| policy | imbalance | unscheduled |\n|---|--:|--:|\n| `kube-scheduler` | 0.1001 | **6.9** |\n| `dqn` | **0.0856** | 1,005.6 |\n",
		`cpu.csv scenario=hetero80 than=kube-scheduler rows=scenario columns=policy show=value,percent,p`: "" +
			"| scenario | `dqn` |\n|---|--:|\n| `hetero80` | -0.0145 (-0.0160 to -0.0129), -14.5 % (-16.0 to -12.9), p <1e-09 |\n",
		`cpu.csv scenario=default than=* rows=policy columns=at`: "| policy | 95 % |\n|---|--:|\n| `gpu-gnn` | +0.04 (+0.01 to +0.11) |\n",
	} {
		if got, err := produce(root, "table", of, nil); err != nil || got != want {
			t.Errorf("table %s: %v\n%s\nwant\n%s", of, err, got, want)
		}
	}
	for _, of := range []string{
		`cpu.csv scenario=none`,
		`cpu.csv scenario=hetero80 than=* rows=scenario columns=scenario metric="over time,unscheduled" than=`,
	} {
		if _, err := produce(root, "table", of, nil); err == nil {
			t.Errorf("table %s has no error", of)
		}
	}
	of, drawn := `cpu.csv out=x kind=dots than=* scenario=hetero80 show=percent title=X`, map[string][]byte{}
	path := filepath.Join(root, "docs/results/plots/x.svg")
	if got, err := produce(root, "plot", of, drawn); err != nil || got != "![X](plots/x.svg)" {
		t.Errorf("plot: %q %v", got, err)
	}
	if !strings.Contains(string(drawn[path]), "hetero80") {
		t.Error("the plot is without its row")
	}
}

// Every table and plot of the docs is up to date. `make docs` renews them.
func TestPagesAreFresh(t *testing.T) {
	stale, err := render("../..")
	if err != nil {
		t.Fatal(err)
	}
	for path := range stale {
		t.Errorf("%s is stale: run make docs", path)
	}
}
