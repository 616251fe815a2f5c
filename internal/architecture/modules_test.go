package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gnnsched/internal/fatal"
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

// The module file of an older Kubernetes release differs from go.mod only in Kubernetes' own modules, in modules that only one of the
// releases needs, and in modules replaced because the release does not compile with newer ones.
func TestOlderReleasesHaveTheSameVersions(t *testing.T) {
	root := filepath.Join("..", "..")
	files, err := filepath.Glob(filepath.Join(root, "go.k*.mod"))
	if err != nil || len(files) != 1 {
		t.Fatalf("module files of older releases %v, %v, want one", files, err)
	}
	ours := versions(t, filepath.Join(root, "go.mod"))
	for _, file := range files {
		name := filepath.Base(file)
		theirs := versions(t, file)
		release := strings.TrimSuffix(strings.TrimPrefix(name, "go.k1"), ".mod")
		for key, version := range theirs {
			path := strings.TrimSuffix(key, " =>")
			switch {
			case path == "k8s.io/kubernetes" && !strings.HasPrefix(version, "v1."+release+"."):
				t.Errorf("%s: %s %s, want 1.%s", name, key, version, release)
			case strings.HasSuffix(key, " =>") && strings.HasPrefix(path, "k8s.io/") && !strings.HasPrefix(version, "v0."+release+"."):
				t.Errorf("%s: %s %s, want 0.%s", name, key, version, release)
			case strings.HasPrefix(version, "v0."+release+".") && strings.HasPrefix(path, "k8s.io/") || path == "k8s.io/kubernetes":
			case ours[key] != "" && ours[key] != version:
				t.Errorf("%s: %s %s, and %s in go.mod; run `make tidy`", name, key, version, ours[key])
			}
		}
		for key := range ours {
			if theirs[key] == "" && !strings.HasSuffix(key, " =>") && !indirect(t, filepath.Join(root, "go.mod"), key) {
				t.Errorf("%s lacks %s; run `make tidy`", name, key)
			}
		}
	}
}

// indirect reports whether a module is required for another module only.
func indirect(t *testing.T, file, path string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	fatal.If(t, err)
	return regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(path) + ` .*// indirect$`).Match(text)
}

// versions returns the versions in a go.mod. A replacement has its arrow in the key.
func versions(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	fatal.If(t, err)
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
