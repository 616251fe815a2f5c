package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The oldest figures come first. Sections of one file and commit share a line.
func TestStaleFigures(t *testing.T) {
	root := t.TempDir()
	path := dataFile(root, "sources.csv")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	const head = "file,section,command,commit,date,seeds\n"
	for text, want := range map[string]string{
		"a.csv,new,make,bb,2026-11-23,1\nb.csv,one,make,aa,2026-11-20,1\nb.csv,two,make,aa,2026-11-20,1\n": "" +
			"| 2026-11-20 | aa | b.csv | one, two |\n| 2026-11-23 | bb | a.csv | new |\n",
		"a.csv,new,make,,2026-11-23,1\n": "new of a.csv has no commit or no date",
	} {
		if err := os.WriteFile(path, []byte(head+text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := stale(root, "")
		if err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
