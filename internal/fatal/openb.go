package fatal

import (
	"os"
	"path/filepath"
	"testing"
)

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
