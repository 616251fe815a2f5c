package main

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/exit"
)

func savedCheckpoint(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "mine.safetensors")
	c := checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.ActorCritic, Hidden: 8}, rand.New(rand.NewPCG(1, 2)))
	if err := c.Save(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEval(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want []string // in stdout
	}{
		{"table", []string{"--seeds", "2"}, []string{"│ kube-scheduler │", "│ best-fit", "2 paired seeds (1 to 2)", "Difference from kube-scheduler"}},
		{"markdown", []string{"--seeds", "2", "-o", "markdown"}, []string{"### aaml", "| most-allocated |"}},
		{"checkpoint", []string{"--seeds", "1", "--policies", "random", "--checkpoint", savedCheckpoint(t), "--checkpoint", "other=" + savedCheckpoint(t)}, []string{"│ random", "│ mine", "│ other", "seed 1 alone"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := run(t, append([]string{"gnnsched", "eval", "--scenario", "aaml"}, c.args...)...)
			if code != exit.OK {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			for _, w := range c.want {
				if !strings.Contains(stdout, w) {
					t.Errorf("%q is missing in\n%s", w, stdout)
				}
			}
		})
	}
}

func TestEvalJSON(t *testing.T) {
	code, stdout, stderr := run(t, "gnnsched", "eval", "--seeds", "2", "--seed", "5", "-o", "json", "--policies", "random,best-fit")
	var got []struct {
		Scenario, Baseline string
		Seeds              []uint64
		Policies           []struct {
			Name     string
			Mean     map[string]float64
			Outcomes []map[string]float64
		}
	}
	if err := json.Unmarshal([]byte(stdout), &got); code != exit.OK || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, stderr)
	}
	if len(got) != len(scenarioNames()) || got[0].Baseline != "random" || got[0].Seeds[0] != 5 || len(got[0].Policies) != 2 || len(got[0].Policies[1].Outcomes) != 2 {
		t.Errorf("%+v", got)
	}
	if m := got[0].Policies[1]; m.Mean["cpuStd"] != (m.Outcomes[0]["cpuStd"]+m.Outcomes[1]["cpuStd"])/2 || m.Mean["cpuStd"] == 0 {
		t.Errorf("mean %v of %v", m.Mean, m.Outcomes)
	}
}

func TestEvalBadInput(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		say  string
	}{
		{[]string{"now"}, exit.Usage, "now"},
		{[]string{"--scenario", "moon"}, exit.Usage, "aaml, mixed"},
		{[]string{"--policies", "guess"}, exit.Usage, "kube-scheduler, most-allocated"},
		{[]string{"--policies", "random,random"}, exit.Usage, "two policies"},
		{[]string{"--seeds", "0"}, exit.Usage, "1 to 100000"},
		{[]string{"-o", "xml"}, exit.Usage, "markdown"},
		{[]string{"--checkpoint", "none"}, exit.Checkpoint, "none"},
		{[]string{"--checkpoint", "a=" + write(t, "c", []byte("no checkpoint"))}, exit.Checkpoint, "not a checkpoint"},
	} {
		code, stdout, stderr := run(t, append([]string{"gnnsched", "eval"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.say) || stdout != "" {
			t.Errorf("%v: exit code %d, want %d; stdout %q, stderr %q wants %q", c.args, code, c.code, stdout, stderr, c.say)
		}
	}
}
