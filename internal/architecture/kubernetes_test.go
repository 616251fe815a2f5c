package architecture

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Kubernetes takes minutes to compile. The trainer and its tests are compiled apart from the rest, with libtorch, so they do without it.
func TestTrainerNeedsNoKubernetes(t *testing.T) {
	code, tests := map[string][]string{}, map[string][]string{}
	for _, s := range sources(t) {
		of := code
		if s.test {
			of = tests
		}
		for _, i := range s.ast.Imports {
			name, _ := strconv.Unquote(i.Path.Value) // the parser accepted it
			of[s.folder] = append(of[s.folder], name)
		}
	}
	if path := toKubernetes(code, code["scheduler/server"], map[string]bool{}); len(path) == 0 {
		t.Fatal("no path from scheduler/server to Kubernetes was found")
	}
	for folder := range code {
		if !slices.ContainsFunc(torch, func(f string) bool { return within(folder, f) }) {
			continue
		}
		if path := toKubernetes(code, slices.Concat(code[folder], tests[folder]), map[string]bool{}); len(path) > 0 {
			t.Errorf("%s or its tests reach Kubernetes by %s", folder, strings.Join(path, ", "))
		}
	}
}

// toKubernetes returns a path from imports to a package of the module k8s.io/kubernetes, nil if there is none. It notes in seen the
// folders it has been to.
func toKubernetes(code map[string][]string, imports []string, seen map[string]bool) []string {
	for _, name := range imports {
		if strings.HasPrefix(name, "k8s.io/kubernetes/") {
			return []string{name}
		}
		folder, ours := strings.CutPrefix(name, module)
		if !ours || seen[folder] {
			continue
		}
		seen[folder] = true
		if rest := toKubernetes(code, code[folder], seen); rest != nil {
			return append([]string{name}, rest...)
		}
	}
	return nil
}
