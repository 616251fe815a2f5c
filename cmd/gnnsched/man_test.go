package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
