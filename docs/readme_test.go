package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// scenarioOfRow matches the scenario that a row of the README's table of results names.
var scenarioOfRow = regexp.MustCompile("\\(`([a-z0-9-]+)`\\)$")

// The figures of the README's table of results stand in the pages that they were copied from: a scenario's of results.md in its verdict and in its tables.
func TestResultsInTheReadme(t *testing.T) {
	results, gpu := page(t, "results.md"), page(t, "results/gpu.md")
	others := page(t, "results/mixed.md") + page(t, "evaluation.md")
	_, table, found := strings.Cut(page(t, "../README.md"), "| workload | figure |")
	if !found {
		t.Fatal("the README has no table of results")
	}
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "|\n "), "|")
		if strings.HasPrefix(line, "|--") || rows == 0 && !strings.HasPrefix(line, "| ") {
			continue
		}
		if len(cells) != 7 {
			break
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] == "kube-scheduler" { // the rest of the head
			continue
		}
		rows++
		value, policy, _ := strings.Cut(cells[4], " ")
		if name := scenarioOfRow.FindStringSubmatch(cells[0]); name != nil && strings.Contains(results, "\n### "+name[1]+"\n") {
			checkScenario(t, results, name[1], cells)
			continue
		} else if name != nil {
			if !oneLineHas(others, cells[6]) || !oneLineHas(others, value) || !oneLineHas(others, name[1]) {
				t.Errorf("no other page has %v of %s", cells[4:], name[1])
			}
			continue
		}
		if !oneLineHas(gpu, strings.Trim(policy, "`"), value) {
			t.Errorf("results/gpu.md has no line with the network's figures of %q", cells[0])
		}
	}
	if rows != 10 {
		t.Errorf("%d rows, want 10", rows)
	}
}

// checkScenario checks a row with a scenario of results.md.
func checkScenario(t *testing.T, results, name string, cells []string) {
	t.Helper()
	without, best, _ := strings.Cut(cells[3], " ")
	value, network, _ := strings.Cut(cells[4], " ")
	best, network = strings.Trim(best, "`"), strings.Trim(network, "`")
	difference, interval, _ := strings.Cut(strings.TrimSuffix(cells[6], ")"), " (")
	if !oneLineHas(results, "| "+name+" ", " "+best+" |", " "+network+" |", without+" → "+value, difference, interval) {
		t.Errorf("%s: no verdict with %v", name, cells[3:])
	}
	_, section, _ := strings.Cut(results, "\n### "+name+"\n")
	section, _, _ = strings.Cut(section, "\n### ")
	difference, interval, _ = strings.Cut(strings.TrimSuffix(cells[5], ")"), " (")
	if !oneLineHas(section, "| kube-scheduler ", " "+cells[2]+" |") || !oneLineHas(section, "| over time", " "+network+" ", difference, interval) {
		t.Errorf("%s: no comparison with kube-scheduler with %v", name, cells[2:])
	}
}

// oneLineHas reports whether a line has all of these words.
func oneLineHas(text string, words ...string) bool {
next:
	for line := range strings.Lines(text) {
		for _, w := range words {
			if !strings.Contains(strings.ReplaceAll(line, "*", ""), w) {
				continue next
			}
		}
		return true
	}
	return false
}

// page returns a page of the docs.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
