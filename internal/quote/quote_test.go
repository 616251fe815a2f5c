package quote

import (
	"strings"
	"testing"
)

func TestValue(t *testing.T) {
	for in, want := range map[string]string{
		"a\x00b":                `"a\x00b"`,
		strings.Repeat("x", 40): `"` + strings.Repeat("x", 40) + `"`,
		strings.Repeat("é", 40): `"` + strings.Repeat("é", 20) + `"... (80 bytes)`,
	} {
		if got := Value(in); got != want {
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
		if got := Message(in, 11); got != want {
			t.Errorf("%.50q: %q, want %q", in, got, want)
		}
	}
}
