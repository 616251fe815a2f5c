package main

import (
	"testing"

	"gnnsched/cmd/internal/man"
)

// The reference has the flags as the commands have them.
func TestFlagsPageIsFresh(t *testing.T) {
	if err := man.Check("../../docs/reference/flags.md", app(nil), commands(nil)); err != nil {
		t.Error(err)
	}
}
