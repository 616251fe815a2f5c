package exit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

func TestCode(t *testing.T) {
	base := errors.New("boom")
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"nil", nil, OK},
		{"plain", base, Internal},
		{"cancelled", fmt.Errorf("stopped: %w", context.Canceled), Interrupted},
		{"typed", New(Unreachable, base, ""), Unreachable},
		{"wrapped typed", fmt.Errorf("outer: %w", New(Checkpoint, base, "")), Checkpoint},
		{"usage", Usagef("no flag %q", "x"), Usage},
	} {
		if got := Code(c.err); got != c.want {
			t.Errorf("%s: Code = %d, want %d", c.name, got, c.want)
		}
	}
}

func TestReport(t *testing.T) {
	var b bytes.Buffer
	Report(&b, "runsim", fmt.Errorf("deploy: %w", New(Unreachable, errors.New("connection refused"), "start a cluster with kwokcluster up")))
	want := "runsim: error: deploy: connection refused\nrunsim: hint: start a cluster with kwokcluster up\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
	b.Reset()
	if Report(&b, "x", nil); b.Len() != 0 {
		t.Errorf("nil error printed %q", b.String())
	}
}

func TestValue(t *testing.T) {
	for in, want := range map[string]string{
		"a\x00b":                `"a\x00b"`,
		strings.Repeat("x", 40): `"` + strings.Repeat("x", 40) + `"`,
		strings.Repeat("é", 40): `"` + strings.Repeat("é", 20) + `"... (80 bytes)`,
	} {
		if got := Quote(in); got != want {
			t.Errorf("%.50q: %s, want %s", in, got, want)
		}
	}
}

func TestMessage(t *testing.T) {
	for in, want := range map[string]string{
		"one\ntwo":                "one\ntwo",
		"\x1b[31mred":             "[31mred",
		strings.Repeat("é", 6):    strings.Repeat("é", 5) + "...",
		strings.Repeat("y", 1000): strings.Repeat("y", 11) + "...",
	} {
		if got := Clean(in, 11); got != want {
			t.Errorf("%.50q: %q, want %q", in, got, want)
		}
	}
}

func TestShell(t *testing.T) {
	for in, want := range map[string]string{
		"/home/me/.local/kubeconfig": "/home/me/.local/kubeconfig", "/a b": "'/a b'", "it's": `'it'\''s'`, "": "''", "$HOME": "'$HOME'",
	} {
		if got := ShellLine(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
		out, err := exec.Command("sh", "-c", "printf %s "+want).Output()
		if err != nil || string(out) != in {
			t.Errorf("a shell reads %s as %q, %v", want, out, err)
		}
	}
}
