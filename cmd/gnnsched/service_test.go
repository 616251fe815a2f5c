package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// With the tag service the program compiles, and is without what only the laboratory needs.
func TestService(t *testing.T) {
	tags := "service" // plus this run's own tags, which -tags replaces
	for _, flag := range strings.Fields(os.Getenv("GOFLAGS")) {
		if more, is := strings.CutPrefix(flag, "-tags="); is {
			tags += "," + more
		}
	}
	out, err := exec.Command("go", "list", "-deps", "-export", "-tags", tags, ".").Output()
	if err != nil {
		t.Fatal(err, string(err.(*exec.ExitError).Stderr))
	}
	deps := strings.Fields(string(out))
	for name, want := range map[string]bool{"gnnsched/scheduler/server": true, "gnnsched/cmd/internal/top": true, "gonum.org/v1/plot": false,
		"helm.sh/helm/v3/pkg/engine": false} {
		if slices.Contains(deps, name) != want {
			t.Errorf("it imports %s: %v, want %v", name, !want, want)
		}
	}
}
