package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/man"
	"gnnsched/cmd/internal/trial"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
)

// Every command that the help shows has a manual page, which names the command's flags and all exit codes.
func TestManualPages(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	program := app("gnnsched")
	program.Writer, program.ErrWriter = &out, &out
	if code := cli.RunContext(context.Background(), program, []string{"gnnsched", "man", dir}); code != exit.OK {
		t.Fatalf("code %d: %s", code, out.String())
	}
	for _, c := range commands() {
		if c.Hidden {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, c.Name+".8"))
		if os.IsNotExist(err) {
			text, err = os.ReadFile(filepath.Join(dir, "gnnsched-"+c.Name+".8"))
		}
		if err != nil {
			t.Error(err)
			continue
		}
		for _, f := range c.VisibleFlags() {
			if !strings.Contains(string(text), "--"+f.Names()[0]) {
				t.Errorf("the page of %s lacks --%s", c.Name, f.Names()[0])
			}
		}
		_, codes, _ := strings.Cut(string(text), ".SH EXIT STATUS\n")
		for _, m := range exit.Meanings() {
			if !strings.Contains(codes, fmt.Sprintf("\\fB%d\\fP\n%s\n", m.Code, m.Text)) {
				t.Errorf("the page of %s lacks exit code %d", c.Name, m.Code)
			}
		}
	}
}

// The reference has the flags as the commands have them.
func TestFlagsPageIsFresh(t *testing.T) {
	if err := man.Check("../../docs/reference/flags.md", app("gnnsched"), commands()); err != nil {
		t.Error(err)
	}
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
