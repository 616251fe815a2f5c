package eval

import (
	"os"
	"strings"
	"testing"
)

// The example scenario in docs/evaluation.md is valid, and the page names every built-in scenario and
// every metric.
func TestScenariosInTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/evaluation.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	_, rest, _ := strings.Cut(page, "\n```yaml\n")
	example, _, _ := strings.Cut(rest, "\n```")
	if s, err := Read("docs/evaluation.md", []byte(example)); err != nil || len(s) != 1 {
		t.Errorf("%d scenarios, %v in\n%s", len(s), err, example)
	}
	for _, name := range names() {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("scenario %s is missing", name)
		}
	}
	for _, m := range Metrics {
		if !strings.Contains(page, "`"+m.Name+"`") {
			t.Errorf("metric %s is missing", m.Name)
		}
	}
}
