// Package openbtest finds the openb trace for tests, which is too large to lie beside them.
package openbtest

import (
	"os"
	"path/filepath"
	"testing"
)

// Env names the environment variable that says where the trace's files are.
const Env = "OPENB_DATA"

// Dir returns the folder with the trace's files: the one that Env names, else the first
// shared/data/openb beside a folder above the test. Where there is none the test is skipped.
func Dir(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(Env); dir != "" {
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
	t.Skip("the openb trace is not here; name its folder with " + Env)
	return ""
}

// File is the path of one of the trace's files.
func File(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(Dir(t), name)
}
