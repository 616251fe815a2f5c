package main

import (
	"slices"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/trial"
	"gnnsched/internal/cli"
	"gnnsched/internal/golden"
)

// The reference has the flags as the commands have them.
func TestFlagsPage(t *testing.T) {
	page, err := cli.Reference(app("gnnsched"))
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "../../../docs/reference/flags-gnnsched.md", page)
}

// A command with many flags shows first what people need first, in few words.
func TestHelpIsShort(t *testing.T) {
	for _, c := range slices.Concat(commands(), trial.Eval().Subcommands) {
		flags := cli.VisibleFlags(c.Flags)
		first := len(strings.Fields(cli.Groups(flags)[0].Flags))
		if len(flags) > 16 && first > 14 {
			t.Errorf("the help of %s begins with %d of %d flags", c.Name, first, len(flags))
		}
		for _, f := range flags {
			if d, ok := f.(ucli.DocGenerationFlag); ok && len(strings.Fields(d.GetUsage())) > 25 {
				t.Errorf("%s: the help of --%s has over 25 words: %s", c.Name, f.Names()[0], d.GetUsage())
			}
		}
	}
	_, help, _ := run(t, "rungnn", "--help")
	if words := len(strings.Fields(help)); words > 450 {
		t.Errorf("rungnn --help has %d words", words)
	}
	_, all, _ := run(t, "rungnn", "--help-all")
	for _, f := range cli.VisibleFlags(commands()[0].Flags) {
		if name := "--" + f.Names()[0] + " "; !strings.Contains(all, name) {
			t.Errorf("rungnn --help-all lacks %s", name)
		}
	}
}
