package usage

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"gnnsched/internal/fatal"
)

var (
	metric   = regexp.MustCompile(`\b(?:container|kepler|node|pod|machine|cluster|namespace)[_:][a-z_:]+\b`)
	recorded = regexp.MustCompile(`(?m)^  - record: (\S+)$`)
	query    = regexp.MustCompile(`(?m)^\s*"?expr"?: (.*)$`)
)

// TestMonitoringKnowsTheMetrics: every metric that a rule or a dashboard names is on one of the pages, or
// recorded by a rule.
func TestMonitoringKnowsTheMetrics(t *testing.T) {
	dir := filepath.Join("..", "..", "compose", "monitoring")
	rules, err := os.ReadFile(filepath.Join(dir, "rules.yaml"))
	fatal.If(t, err)
	known := map[string]bool{}
	for _, p := range []page{resourcePage, cadvisorPage, keplerPage, nodeExporterPage} {
		for _, f := range p {
			known[f.name] = true
		}
	}
	for _, m := range recorded.FindAllSubmatch(rules, -1) {
		known[string(m[1])] = true
	}
	files, err := filepath.Glob(filepath.Join(dir, "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, file := range append(files, filepath.Join(dir, "rules.yaml")) {
		text, err := os.ReadFile(file)
		fatal.If(t, err)
		named := 0
		for _, q := range query.FindAllSubmatch(text, -1) {
			expr := regexp.MustCompile(`\{[^}]*\}`).ReplaceAll(q[1], nil) // labels
			for _, name := range metric.FindAllString(string(expr), -1) {
				named++
				if !known[name] {
					t.Errorf("%s names %s, which nothing exports: %s", file, name, q[1])
				}
			}
		}
		if named == 0 {
			t.Errorf("%s names no metric", file)
		}
	}
}
