package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/cmd/internal/man"
)

// The reference has the flags as the commands have them.
func TestFlagsPageIsFresh(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/flags.md")
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := man.Reference(page, app(nil), commands(nil))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(page), "\n"), strings.Split(string(fresh), "\n")); d != "" {
		t.Errorf("docs/reference/flags.md is stale (make docs renews it), -page +commands:\n%s", d)
	}
}
