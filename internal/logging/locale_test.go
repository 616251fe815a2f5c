package logging

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"gnnsched/internal/fatal"
)

func TestUTF8(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want bool
	}{
		{nil, false},
		{[]string{"LANG=en_GB.UTF-8"}, true},
		{[]string{"LANG=de_DE.utf8"}, true},
		{[]string{"LANG=en_GB.UTF-8", "LC_ALL=C"}, false},
		{[]string{"LANG=en_GB.UTF-8", "LC_ALL="}, true},
		{[]string{"LANG=C", "LC_CTYPE=C.UTF-8"}, true},
		{[]string{"LC_ALL=C.UTF-8", "LC_ALL=POSIX"}, false},
	} {
		if got := UTF8(c.env); got != c.want {
			t.Errorf("%v: %v", c.env, got)
		}
	}
}

func TestASCII(t *testing.T) {
	for in, want := range map[string]string{
		"62% → 88%":                       "62% ->88%",
		"starting a cluster …\nvaliant…x": "starting a cluster ...\nvaliant~x",
		"a text…":                         "a text...",
		"│ 202 µs │ 1 · 2":                "| 202 us | 1 | 2",
		"naïve 世界":                        "naïve 世界",
	} {
		if got := ASCII(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// However a text is split into writes, what arrives is the whole text without the programs' signs, and text of others is kept.
func TestWriterSplit(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab é世─│━▁µ"))).Draw(t, "text")
		f, err := os.Create(filepath.Join(dir, "f"))
		fatal.If(t, err)
		w := Writer(f)
		for rest := []byte(text); len(rest) > 0; {
			cut := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			if wrote, err := w.Write(rest[:cut]); err != nil || wrote != cut {
				t.Fatal(wrote, err)
			}
			rest = rest[cut:]
		}
		f.Close()
		got, err := os.ReadFile(f.Name())
		fatal.If(t, err)
		if string(got) != ASCII(text) || strings.ContainsAny(string(got), "─│━▁µ") || utf8.RuneCount(got) != utf8.RuneCountInString(text) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func TestWriterInUTF8(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	if Writer(os.Stdout) != os.Stdout {
		t.Error("the file is wrapped in a UTF-8 locale")
	}
}
