package main

import (
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/policy"
)

func TestTune(t *testing.T) {
	out := filepath.Join(t.TempDir(), "mine.json")
	code, stdout, errs := run(t, "gnnsched", "tune", "--scenario", "tiny", "--generations", "2", "--population", "8", "--episodes", "2", "--name", "mine", "--out", out)
	if code != exit.OK || stdout != "" || !strings.Contains(errs, "generation 2 of 2") {
		t.Fatalf("code %d, %q, %q", code, stdout, errs)
	}
	l, err := policy.LoadLinear(out)
	if err != nil || l.Name() != "mine" {
		t.Error(l, err)
	}
	table := filepath.Join(t.TempDir(), "q.json")
	if code, _, errs := run(t, "gnnsched", "tune", "--method", "tabular-q", "--scenario", "tiny", "--steps", "500", "--out", table); code != exit.OK {
		t.Fatalf("code %d, %q", code, errs)
	}
	if code, _, errs := run(t, "gnnsched", "eval", "--scenario", "tiny", "--seeds", "2", "--policies", "kube-scheduler", "--checkpoint", "mine="+out, "--checkpoint", "q="+table); code != exit.OK {
		t.Errorf("evaluated: code %d, %q", code, errs)
	}
}

func TestTuneBadInput(t *testing.T) {
	for args, want := range map[string]string{
		"--scenario nowhere":           "nowhere",
		"--scenario hetero*":           "want one",
		"--population 4":               "elite",
		"--episodes 0":                 "episodes",
		"--init /nowhere.json":         "nowhere.json",
		"--out /nowhere/mine.json":     "--out",
		"more":                         "unexpected argument",
		"--method guess":               "tabular-q",
		"--method tabular-q --steps 0": "steps",
		"--wait-weight -1":             "weight",
		"--generations 0 --seed 12":    "generations",
	} {
		code, _, errs := run(t, append([]string{"gnnsched", "tune"}, strings.Fields(args)...)...)
		if code != exit.Usage || !strings.Contains(errs, want) {
			t.Errorf("%s: code %d, %q; want %q", args, code, errs, want)
		}
	}
}
