package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gnnsched/internal/fatal"
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
	fatal.If(t, os.MkdirAll(filepath.Join(root, "docs/results/data"), 0o755))
	fatal.If(t, os.WriteFile(filepath.Join(root, "docs/results/data/cpu.csv"), []byte(data), 0o600))
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
	stale := fatal.Value(render("../.."))(t)
	for path := range stale {
		t.Errorf("%s is stale: run make docs", path)
	}
}

// allowed are the numbers in the text of pages that are no figures, such as settings.
var allowed = map[string][]string{
	"README.md":      {"1,000", "0.95", "1.05", "1.19", "1.21", "1.27", "1.36", "1.37"}, // nodes, loads, releases of Go and Kubernetes
	"cpu.md":         {"0.05", "1,000"},                                                 // of p; nodes
	"gpu.md":         {"1,213", "6,212"},                                                // machines and GPUs of the trace
	"performance.md": {"1,000", "1,213", "10,800"},                                      // candidates, nodes, pods
}

var (
	codeText = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`|\\]\\([^)]*\\)|(?m:^    [^\n]*$)")
	hidden   = regexp.MustCompile(`(?s)<!-- generated: .*?<!-- end -->|<!--.*?-->`)
	cited    = regexp.MustCompile(`<!-- cites: ([^\n]*) -->`)
	decimal  = regexp.MustCompile(`(?:^|[^\w.,])[-+]?(\d+(?:,\d{3})*\.\d+|\d{1,3}(?:,\d{3})+)(?:[^\w.]|\.\s|\.$|$)`)
)

// Every decimal number in the text of a results page, and every number with thousands, is a figure of docs/results/data,
// rounded to the number's decimals. `<!-- cites: FILE FIELD=VALUE… -->` in a page says in which rows; a page without such
// a comment may cite all files.
func TestNumbersOfPages(t *testing.T) {
	pages, err := filepath.Glob("../results/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("no results pages", err)
	}
	pages = append(pages, "../../README.md")
	for _, path := range pages {
		page := fatal.Value(os.ReadFile(path))(t)
		figures, err := figuresOf("../..", string(page))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		for _, n := range unfounded(string(page), figures) {
			if !slices.Contains(allowed[filepath.Base(path)], n) {
				t.Errorf("%s: no data file has %s", path, n)
			}
		}
	}
}

// The test finds a changed figure.
func TestChangedNumber(t *testing.T) {
	figures := fatal.Value(figuresOf("../..", "<!-- cites: cpu.csv section=rivals,scenarios scenario=foreign -->"))(t)
	for text, want := range map[string]string{
		"13.8 % less":             "",
		"8.4 % less":              "8.4",
		"from 0.0956 to 0.0824.":  "",
		"from 0.0956 to 0.0927.":  "0.0927",
		"`--share 0.05` and 0.09": "",
		"version 1.36.3":          "",
		"12,345 pods":             "12,345",
	} {
		if got := strings.Join(unfounded(text, figures), " "); got != want {
			t.Errorf("%q: %q without a row, want %q", text, got, want)
		}
	}
}

// figuresOf returns the numbers of the rows that a page may cite.
func figuresOf(root, page string) ([]float64, error) {
	cites := cited.FindAllStringSubmatch(page, -1)
	if cites == nil {
		files, err := filepath.Glob(filepath.Join(root, "docs/results/data/*.csv"))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if name := filepath.Base(f); name != "sources.csv" {
				cites = append(cites, []string{"", name})
			}
		}
	}
	var figures []float64
	for _, c := range cites {
		r, err := parseRequest(c[1])
		if err != nil {
			return nil, err
		}
		if r.all, err = readData(filepath.Join(root, "docs/results/data", r.file)); err != nil {
			return nil, err
		}
		chosen, err := r.chosen()
		if _, set := r.settings["than"]; !set { // differences, too
			r.settings["than"] = "*"
			if more, e := r.chosen(); e == nil {
				chosen, err = append(chosen, more...), nil
			}
		}
		if err != nil {
			return nil, fmt.Errorf("cites %s: %w", c[1], err)
		}
		for _, c := range chosen {
			for _, field := range []string{"value", "low", "high", "percent", "p"} {
				figures = append(figures, math.Abs(parse(strings.TrimPrefix(c[field], "<"))))
			}
			low, high := r.percentInterval(c)
			figures = append(figures, math.Abs(parse(low)), math.Abs(parse(high)))
		}
	}
	return figures, nil
}

// unfounded returns the numbers in the text of a page that no figure rounds to.
func unfounded(page string, figures []float64) []string {
	text := codeText.ReplaceAllString(hidden.ReplaceAllString(page, " "), " _ ")
	var missing []string
	for {
		at := decimal.FindStringSubmatchIndex(text)
		if at == nil {
			return missing
		}
		n := text[at[2]:at[3]]
		text = text[at[3]:]
		_, decimals, _ := strings.Cut(n, ".")
		v, half := parse(strings.ReplaceAll(n, ",", "")), 0.5*math.Pow10(-len(decimals))
		if !slices.ContainsFunc(figures, func(f float64) bool { return math.Abs(f-v) <= half*1.000001 }) {
			missing = append(missing, n)
		}
	}
}
