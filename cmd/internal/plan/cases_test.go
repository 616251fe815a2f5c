package plan

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/convert"
	"gnnsched/internal/golden"
)

// Each folder of testdata/cases has what kubectl printed of a small cluster, most from public reports of bugs, and the right plan.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*/in.json")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, path := range files {
		name := filepath.Base(filepath.Dir(path))
		t.Run(name, func(t *testing.T) {
			out, err := runPlan(t, convertOf(t, path))
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, "cases/"+name+"/plan.txt", out)
		})
	}
}

// convertOf makes a record of a file, as of December 2026, a week after its pods came.
func convertOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir, at := t.TempDir(), time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	in, out := filepath.Join(dir, "in.json"), filepath.Join(dir, "x.record")
	if err := os.WriteFile(in, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(in, at, at); err != nil {
		t.Fatal(err)
	}
	app := &ucli.App{Writer: &bytes.Buffer{}, ErrWriter: &bytes.Buffer{}, Commands: []*ucli.Command{convert.Command()}}
	if err := app.RunContext(t.Context(), []string{"gnnsched", "convert", "--log-dir", "", "--log-level", "error", "--out", out,
		in}); err != nil {
		t.Fatal(err)
	}
	return out
}
