package trial

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval/migrun"
)

// commandMIG runs the command, or tuneMIG, with some arguments.
func commandMIG(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	tune := &ucli.Command{Name: "tune", Action: tuneMIG, Flags: []ucli.Flag{
		&ucli.StringFlag{Name: "out"}, &ucli.Uint64Flag{Name: "seed", Value: 1}, &ucli.IntFlag{Name: "generations", Value: 1},
		&ucli.IntFlag{Name: "population", Value: 8}, &ucli.IntFlag{Name: "episodes", Value: 1},
	}}
	app := &ucli.App{Name: "gnnsched", Commands: []*ucli.Command{migCommand(), tune}, Writer: &out, ErrWriter: &errs}
	code = cli.RunContext(t.Context(), app, append([]string{"gnnsched"}, args...))
	return code, out.String(), errs.String()
}

func TestCommand(t *testing.T) {
	small := []string{"mig", "--machines", "1", "--gpus", "2", "--seeds", "2", "--mix", "bimodal"}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--policies", "first-fit:kube-scheduler,mig:value,gpu-best-fit,fgd,gpu-gnn"}, exit.OK, "optimum"},
		{[]string{"--policies", "mig:value,mig:fgd", "--steady", "--load", "0.9", "-o", "markdown"}, exit.OK, "mean wait"},
		{[]string{"--policies", "mig:value", "-o", "csv"}, exit.OK, "bimodal,mig:value,2,1.3,"},
		{[]string{"--models", "H100,A100", "--policies", "mig:value"}, exit.OK, "7g.80gb"},
		{[]string{"--models", "T4"}, exit.Usage, "there are A100, H100"},
		{[]string{"--models", "A100,A100"}, exit.Usage, "A100 is there twice"},
		{[]string{"--mix", "odd"}, exit.Usage, "there are uniform"},
		{[]string{"--policies", "mig:odd"}, exit.Usage, "there are first-fit"},
		{[]string{"--policies", "mig:value,mig:value"}, exit.Usage, "two policies"},
		{[]string{"--load", "-1"}, exit.Usage, "--load -1"},
		{[]string{"--load", "NaN"}, exit.Usage, "--load NaN"},
		{[]string{"--machines", "0"}, exit.Usage, "--machines 0"},
		{[]string{"--gpus", "65"}, exit.Usage, "--gpus 65"},
		{[]string{"--seeds", "0"}, exit.Usage, "--seeds 0"},
		{[]string{"--seed", "4294967296"}, exit.Usage, "choose seeds below"},
		{[]string{"-o", "xml"}, exit.Usage, "--output"},
		{[]string{"more"}, exit.Usage, "unexpected argument"},
	} {
		code, stdout, stderr := commandMIG(t, append(small, c.args...)...)
		text := stdout
		if c.code != exit.OK {
			text = stderr
		}
		if code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%v: exit code %d, want %d with %q: %s%s", c.args, code, c.code, c.want, stdout, stderr)
		}
	}
	code, stdout, _ := commandMIG(t, append(small, "--policies", "mig:value", "-o", "json")...)
	var r struct {
		Mixes []struct {
			Policies []struct{ Filled [][]migrun.Filled }
		}
	}
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != exit.OK || len(r.Mixes) != 1 ||
		len(r.Mixes[0].Policies[0].Filled[1]) != len(migrun.Loads) {
		t.Errorf("JSON: %d, %v, %+v", code, err, r)
	}
}

// Learned values are a policy.
func TestTune(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.json")
	if code, stdout, stderr := commandMIG(t, "tune", "--out", file); code != exit.OK || !strings.Contains(stdout, "wrote "+file) {
		t.Fatalf("%d: %s%s", code, stdout, stderr)
	}
	if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), "gnnsched tune --method mig --seed 1 --generations 1") {
		t.Errorf("%v: %.200s", err, b)
	}
	if code, stdout, stderr := commandMIG(t, "mig", "--machines", "1", "--seeds", "1", "--mix", "uniform", "--policies",
		"mig:fgd,mig:"+file); code != exit.OK || !strings.Contains(stdout, "mine.json") {
		t.Errorf("%d: %s%s", code, stdout, stderr)
	}
	for _, args := range [][]string{{"--seed", "0"}, {"--out", filepath.Join(file, "below")}} {
		if code, _, stderr := commandMIG(t, append([]string{"tune"}, args...)...); code != exit.Usage {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
	}
}
