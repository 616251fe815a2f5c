package learn

import (
	"os"
	"strings"
	"testing"
)

// The training run in docs/training.md is a valid job.
func TestJobInTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/training.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n```yaml\n")
	example, _, _ := strings.Cut(rest, "\n```")
	if j, err := ReadJob("docs/training.md", []byte(example), "gnn"); err != nil || j.Variant != "acgnn" {
		t.Errorf("variant %s, %v in\n%s", j.Variant, err, example)
	}
}
