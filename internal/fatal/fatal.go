// Package fatal ends tests that cannot go on, skips those whose data are missing, and compares their output with golden files. Only tests
// import it.
package fatal

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TB has the methods that testing.TB and rapid.T share and that this package calls.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// If ends the test if err is not nil.
func If(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Value returns the value of a call, and ends the test if the call failed: fatal.Value(os.Open(name))(t).
func Value[T any](v T, err error) func(TB) T {
	return func(t TB) T {
		t.Helper()
		If(t, err)
		return v
	}
}

const patience = 2 * time.Minute

// Until waits until check returns no error. If it does not within two minutes, Until ends the test.
func Until(t TB, what string, check func() error) {
	t.Helper()
	err := check()
	for begun := time.Now(); err != nil; err = check() {
		if time.Since(begun) > patience {
			t.Fatal("waited for "+what+":", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// UntilTrue waits like Until for a condition.
func UntilTrue(t TB, what string, is func() bool) {
	t.Helper()
	Until(t, what, func() error {
		if !is() {
			return errors.New("it is not so")
		}
		return nil
	})
}

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

// dataVariable is the environment variable with the folder of the openb trace.
const dataVariable = "OPENB_DATA"

// OpenB returns the folder with the files of the openb trace, which is too large for the repository: the one in $OPENB_DATA, else
// shared/data/openb in the test's folder or the nearest folder above it. Without such a folder it skips the test; in CI ($CI is true)
// it fails the test, because skips in CI would go unnoticed.
func OpenB(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(dataVariable); dir != "" {
		return dir
	}
	at, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; at != filepath.Dir(at); at = filepath.Dir(at) {
		dir := filepath.Join(at, "shared", "data", "openb")
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
	}
	const missing = "the openb trace is not found; set " + dataVariable + " to its folder"
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// OpenBFile returns the path of one of the trace's files, see OpenB.
func OpenBFile(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(OpenB(t), name)
}
