package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A table of fields has the names from tags, and the comments. Fields that share a comment share a row. A field without
// a comment is an error.
func TestFields(t *testing.T) {
	root := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(root, "x.go"), []byte("package x\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("type T struct {\n\t// From and To are the time; see Many.\n\tFrom int `json:\"from\"`\n\tTo int `json:\"to\"`\n" +
		"\tMany []int `parquet:\"of_many,dict\"` // a | b; nil: none\n\thidden int\n}\n")
	got, err := fieldTable(root, "x.go T")
	want := "| field | meaning |\n|---|---|\n| `from`, `to` | the time; see `of_many` |\n| `of_many` | a \\| b; left out: none |\n"
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
	write("type T struct {\n\tFrom int `json:\"from\"` // the beginning\n\tTo int `json:\"to\"`\n}\n")
	if _, err := fieldTable(root, "x.go T"); err == nil || !strings.Contains(err.Error(), "the field To has no comment") {
		t.Errorf("%v", err)
	}
	if _, err := fieldTable(root, "x.go U"); err == nil {
		t.Error("a struct that is not there")
	}
}
