package trial_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/trial"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
)

func run(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	app := &ucli.App{Name: "gnnsched", Version: "v1", Writer: &out, ErrWriter: &out, Commands: []*ucli.Command{trial.Bench("abc")},
		ExitErrHandler: func(*ucli.Context, error) {}}
	err := app.RunContext(t.Context(), append([]string{"gnnsched", "bench"}, arguments...))
	return out.String(), err
}

// The results that it writes are those that the leaderboard reads.
func TestBench(t *testing.T) {
	folder := t.TempDir()
	out, err := run(t, "--split", "test", "--scenario", "tiny", "--policies", "kube-scheduler,random", "--by", "a test", "--results",
		filepath.Join(folder, "r.json"))
	if err != nil || !strings.Contains(out, "Means over 30 paired seeds (40001 to 40030)") {
		t.Fatalf("%s, %v", out, err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "r.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r trial.Results
	if err := json.Unmarshal(text, &r); err != nil || r.Commit != "abc" || r.By != "a test" || r.Machine == "" ||
		!strings.Contains(r.Command, "bench") && r.Command == "" {
		t.Errorf("%+v, %v", r, err)
	}
	if all, err := trial.Read(folder); err != nil || len(all) != 1 || len(all[0].Rows) != 3 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestWrongFlags(t *testing.T) {
	for _, c := range []struct{ arguments, want string }{
		{"--split train", "neither validation nor test"}, {"--scenario nope", "lacks one of nope"}, {"--results x", "nobody signs"},
		{"--scenario openb", "needs the trace"}, {"--scenario tiny --policies nobody", `"nobody"`}, {"more", "more"},
		{"--scenario tiny --policies random --by me --results no/such/file", "no such file"},
	} {
		if _, err := run(t, strings.Fields(c.arguments)...); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.arguments, err)
		}
	}
}

// frozen is the version of the set. Who changes a scenario of the set makes a new version of it, and all results must be played again.
const frozen = "f502979c4f97"

func TestVersion(t *testing.T) {
	if got, err := trial.Version(); err != nil || got != frozen {
		t.Errorf("the set has the version %s, %v, want %s: its scenarios or seeds have changed; if that is wanted, "+
			"play docs/results/leaderboard again", got, err, frozen)
	}
	for _, task := range trial.Tasks {
		if _, err := contender.List(task.Policies, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestResults(t *testing.T) {
	if trial.Split("train").Seeds() != nil {
		t.Error("the training split can be played")
	}
	s, err := trial.Tasks[1].ScenarioOf("")
	fatal.If(t, err)
	all, err := contender.List([]string{"kube-scheduler", "random"}, nil)
	fatal.If(t, err)
	c, err := eval.Compare(t.Context(), s, all, trial.Test.Seeds(), nil)
	fatal.If(t, err)
	rows, err := trial.RowsOf(c)
	if err != nil || len(rows) != 3 || rows[0].Difference != nil || rows[1].Mark == "" || rows[2].Kind != eval.Bound ||
		rows[1].Cost <= rows[2].Cost {
		t.Fatalf("%+v, %v", rows, err)
	}
	folder := t.TempDir()
	write := func(r trial.Results) {
		text, err := json.Marshal(r)
		fatal.If(t, err)
		fatal.If(t, os.WriteFile(filepath.Join(folder, "a.json"), text, 0o600))
	}
	good := trial.Results{Set: frozen, Split: trial.Test, Rows: rows}
	write(good)
	if got, err := trial.Read(folder); err != nil || len(got) != 1 || len(got[0].Rows) != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	old := good
	old.Set = "old"
	write(old)
	if got, err := trial.Read(folder); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	other := good
	other.Rows = append([]trial.Row{}, rows...)
	other.Rows[0].Hash = "0"
	write(other)
	if _, err := trial.Read(folder); err == nil || !strings.Contains(err.Error(), "another file") {
		t.Error(err)
	}
	other.Split = trial.Validation
	write(other)
	if _, err := trial.Read(folder); err == nil || !strings.Contains(err.Error(), "are not those of validation") {
		t.Error(err)
	}
}
