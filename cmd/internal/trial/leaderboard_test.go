package trial_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/cmd/internal/trial"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
)

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
