package trial

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
)

// command runs the program with some arguments.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	app := &ucli.App{Name: "gnnsched", Commands: []*ucli.Command{Eval(), Tune("v1")}, Writer: &out, ErrWriter: &errs}
	code = cli.RunContext(t.Context(), app, append([]string{"gnnsched"}, args...))
	return code, out.String(), errs.String()
}

// Learned values are a policy.
func TestTuneMIG(t *testing.T) {
	brief := []string{"tune", "mig", "--generations", "1", "--population", "8", "--episodes", "1"}
	file := filepath.Join(t.TempDir(), "mine.json")
	if code, stdout, stderr := command(t, append(brief, "--out", file)...); code != exit.OK || !strings.Contains(stdout, "wrote "+file) {
		t.Fatalf("%d: %s%s", code, stdout, stderr)
	}
	if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), "gnnsched tune mig --seed 1 --generations 1") {
		t.Errorf("%v: %.200s", err, b)
	}
	if code, stdout, stderr := command(t, "eval", "--scenario", "mig-uniform", "--seeds", "1", "--policies",
		"mig:fgd,mig:"+file, "--metrics", "allocation95,allocation"); code != exit.OK || !strings.Contains(stdout, "mine.json") ||
		!strings.Contains(stdout, "GPU allocation % at 95%") {
		t.Errorf("%d: %s%s", code, stdout, stderr)
	}
	for _, args := range [][]string{{"--seed", "0"}, {"--out", filepath.Join(file, "below")}} {
		if code, _, stderr := command(t, append(slices.Clone(brief), args...)...); code != exit.Usage {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
	}
}
