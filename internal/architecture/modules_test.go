package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// nested are the modules of their own below this one's folder. Each builds this module from its folder.
var nested = []string{"scheduler/schedbench/upstream"}

var requirement = regexp.MustCompile(`(?m)^\s*(?:require\s+)?([a-z0-9./_A-Z~-]+\.[a-z0-9./_A-Z~-]+)(?:\s+=>\s+\S+)?\s+(v\S+)`)

// A nested module has the versions of this one: otherwise it does not build, or builds everything a
// second time. `go vet ./...` does not see it.
func TestNestedModulesHaveTheSameVersions(t *testing.T) {
	root := filepath.Join("..", "..")
	ours := versions(t, filepath.Join(root, "go.mod"))
	for _, folder := range nested {
		theirs := versions(t, filepath.Join(root, folder, "go.mod"))
		if len(theirs) < 50 {
			t.Errorf("%s: %d requirements, want more: is the pattern right?", folder, len(theirs))
		}
		for key, version := range theirs {
			if want, shared := ours[key]; shared && version != want {
				t.Errorf("%s: %s %s, and %s in the main module; run `go mod tidy` in that folder", folder, key, version, want)
			}
		}
	}
}

// versions returns the versions in a go.mod. A replacement has its arrow in the key.
func versions(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, m := range requirement.FindAllStringSubmatch(string(text), -1) {
		key := m[1]
		if strings.Contains(m[0], "=>") {
			key += " =>"
		}
		out[key] = m[2]
	}
	return out
}
