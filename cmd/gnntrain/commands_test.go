package main

import (
	"testing"

	"gnnsched/internal/cli"
	"gnnsched/internal/fatal"
)

// The reference has the flags as the commands have them.
func TestFlagsPage(t *testing.T) {
	page, err := cli.Reference(app())
	fatal.If(t, err)
	fatal.Golden(t, "../../../docs/reference/flags-gnntrain.md", page)
}
