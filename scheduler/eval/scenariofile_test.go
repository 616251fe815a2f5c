package eval

import (
	"os"
	"strings"
	"testing"
)

// The example scenario in docs/reference/scenario-file.md is valid.
func TestScenarioInTheDocs(t *testing.T) {
	const page = "docs/reference/scenario-file.md"
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n```yaml\n")
	example, _, _ := strings.Cut(rest, "\n```")
	if s, err := Read(page, []byte(example)); err != nil || len(s) != 1 {
		t.Errorf("%d scenarios, %v in\n%s", len(s), err, example)
	}
}

// Every metric has a description, for docs/reference/objectives.md.
func TestMetricsAreDescribed(t *testing.T) {
	for _, m := range Metrics {
		if m.About() == "" {
			t.Errorf("the metric %s has no description", m.Name)
		}
	}
}
