package learn

import (
	"os"
	"strings"
	"testing"
)

// The training run in docs/how-to/train.md is a valid job.
func TestJobInTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/train.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n```yaml\n")
	example, _, _ := strings.Cut(rest, "\n```")
	if j, err := ReadJob("docs/how-to/train.md", []byte(example), "gnn"); err != nil || j.Variant != "acgnn" {
		t.Errorf("variant %s, %v in\n%s", j.Variant, err, example)
	}
}
