// Package openbtest finds the files of the openb trace for tests. The trace is too large for the
// repository.
package openbtest

import (
	"os"
	"path/filepath"
	"testing"
)

// env is the environment variable with the folder of the trace's files.
const env = "OPENB_DATA"

// Dir returns the folder with the trace's files: the one in $OPENB_DATA, else shared/data/openb in the test's folder or the nearest folder
// above it. Without such a folder it skips the test; in CI ($CI is true) it fails the test, because skips in CI would go unnoticed.
func Dir(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(env); dir != "" {
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
	const missing = "the openb trace is not found; set " + env + " to its folder"
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// File returns the path of one of the trace's files, see Dir.
func File(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(Dir(t), name)
}
