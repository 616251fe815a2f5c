package main

import (
	"testing"

	"gnnsched/internal/cli"
	"gnnsched/internal/golden"
)

// The reference has the flags as the commands have them.
func TestFlagsPage(t *testing.T) {
	page, err := cli.Reference(app(nil))
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "../../../docs/reference/flags-kwokcluster.md", page)
}
