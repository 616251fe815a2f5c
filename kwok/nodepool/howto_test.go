package nodepool

import (
	"os"
	"strings"
	"testing"
)

// The pool file in docs/how-to/simulate.md can be read.
func TestHowToParses(t *testing.T) {
	const page = "docs/how-to/simulate.md"
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, file, found := strings.Cut(string(text), "```yaml\npools:")
	file, _, _ = strings.Cut(file, "```")
	if !found {
		t.Fatalf("%s shows no pools", page)
	}
	if _, err := Parse(page, []byte("pools:"+file)); err != nil {
		t.Error(err)
	}
}
