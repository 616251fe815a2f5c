package fatal

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// Golden fails the test if got differs from the file testdata/name. With -update it writes the file
// first.
func Golden(t testing.TB, name, got string) {
	t.Helper()
	path := pathOf(name)
	if *update {
		If(t, os.MkdirAll(filepath.Dir(path), 0o755))
		If(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want := ReadGolden(t, name)
	// Compare lines, because cmp shows one string with terminal colours as bytes.
	if d := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); d != "" {
		t.Errorf("%s differs (go test -update rewrites it), -want +got:\n%s", path, d)
	}
}

// ReadGolden returns the golden file testdata/name, for tests with a comparison of their own. With -update, a
// missing file is empty.
func ReadGolden(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(pathOf(name))
	if err != nil && !*update {
		t.Fatal(err)
	}
	return string(text)
}

func pathOf(name string) string { return filepath.Join("testdata", filepath.FromSlash(name)) }
