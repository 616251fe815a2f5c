package workload

import (
	"os"
	"strings"
	"testing"
)

// Every shapes file and CSV in the docs is accepted, and there are some.
func TestExamplesInTheDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/workload.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for i, part := range strings.Split(string(page), "\n```") {
		lang, body, _ := strings.Cut(part, "\n")
		if i%2 == 0 {
			continue // between two blocks
		}
		seen[lang]++
		switch lang {
		case "yaml":
			_, err = ReadShapes("docs", []byte(body))
		case "csv":
			_, err = ReadCSV(strings.NewReader(body), "docs")
		default:
			t.Errorf("a block of %q, which nothing checks", lang)
		}
		if err != nil {
			t.Errorf("%v in\n%s", err, body)
		}
	}
	if seen["yaml"] == 0 || seen["csv"] == 0 {
		t.Errorf("blocks found: %v", seen)
	}
}
