package learn

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/sim"
)

func TestReadJob(t *testing.T) {
	j, err := ReadJob("f", []byte("variant: acdqn\nsteps: 123\nppo: {envs: 16}\nenvironment: {scenario: mixed, load: {min: 0.5, max: "+
		"0.6}}\nheldOut: {scenario: training}"), "gnn")
	fatal.If(t, err)
	want, err := defaultConfig("acdqn")
	fatal.If(t, err)
	want.Steps, want.PPO.Envs = 123, 16
	if !reflect.DeepEqual(j.Config, want) {
		t.Errorf("%+v, want %+v", j.Config, want)
	}
	mixed, err := eval.Find("mixed")
	fatal.If(t, err)
	if j.Environment.Nodes != mixed.Nodes || j.Environment.Load != (sim.FloatRange{Min: 0.5, Max: 0.6}) {
		t.Errorf("environment %+v", j.Environment)
	}
	if j.HeldOut == nil || !reflect.DeepEqual(j.Evaluation(), run.BalanceEnv()) {
		t.Errorf("held-out %+v", j.HeldOut)
	}
}

// Files and checkpoints of before say byRollouts.
func TestOldSpellingOfRollouts(t *testing.T) {
	j, err := ReadJob("f", []byte("byRollouts: true\nvariant: acdqn"), "gnn")
	if err != nil || j.Method != byRollouts {
		t.Errorf("%s, %v", j.Method, err)
	}
	for _, name := range checkpoint.ShippedNames() {
		c, err := checkpoint.Shipped(name)
		fatal.If(t, err)
		if c.Manifest.Architecture.Stars() {
			continue
		}
		if j, err := ReadJob(name, c.Manifest.Config, "gnn"); err != nil || j.Method != byRollouts {
			t.Errorf("%s: %s, %v", name, j.Method, err)
		}
	}
}

// A job names the sets of features that its network reads. An unknown one is an error that names it.
func TestJobNamesFeatures(t *testing.T) {
	j, err := ReadJob("f", []byte("features: [base]"), "gnn")
	if err != nil || !slices.Equal(j.Architecture().Features, []string{"base"}) {
		t.Errorf("%v, %v", j.Architecture().Features, err)
	}
	if _, err := ReadJob("f", []byte("features: [base, smell]"), "gnn"); err == nil || !strings.Contains(err.Error(), "smell") {
		t.Errorf("an unknown set: %v", err)
	}
}

// ReadJob reads what YAML writes.
func TestJobRoundTrip(t *testing.T) {
	for _, v := range variantNames() {
		j, err := NewJob(v)
		fatal.If(t, err)
		y, err := j.YAML()
		fatal.If(t, err)
		back, err := ReadJob("f", y, "gnn")
		if err != nil {
			t.Fatalf("%v\n%s", err, y)
		}
		if again, err := back.YAML(); err != nil || string(again) != string(y) {
			t.Errorf("%s: %v\n%s\nbecame\n%s", v, err, y, again)
		}
	}
}

func TestReadJobRefuses(t *testing.T) {
	for want, text := range map[string]string{
		"cnn":        "variant: cnn",
		"stepz":      "stepz: 1",
		"gamma":      "gamma: 2",
		"nodez":      "environment: {scenario: mixed, nodez: 1}",
		"nowhere":    "environment: {scenario: nowhere}",
		"already":    "steps: 1\nsteps: 2",
		"envz":       "ppo: {envz: 1}",
		"reward":     "reward: {kind: gold}",
		"waitCost":   "heldOut: {scenario: mixed, waitCost: -1}",
		"file.yaml:": "steps: 0",
	} {
		if _, err := ReadJob("file.yaml", []byte(text), "gnn"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

// FuzzReadJob checks that an accepted job survives a round trip, and that errors begin with the file name.
func FuzzReadJob(f *testing.F) {
	files, err := filepath.Glob("runs/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		fatal.If(f, err)
		f.Add(b)
	}
	f.Add([]byte("variant: acdqn\nppo: {envs: 16}\nenvironment: {scenario: mixed, load: {min: 0.5, max: 0.6}}\nheldOut: {scenario: training}"))
	f.Add([]byte("environment: null\nheldOut: {}\nreward: null"))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := ReadJob("f", data, "gnn")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f: ") {
				t.Fatalf("error without the file's name: %v", err)
			}
			return
		}
		y, err := j.YAML()
		fatal.If(t, err)
		again, err := ReadJob("f", y, "gnn")
		if err != nil {
			t.Fatalf("%v\n%s", err, y)
		}
		if z, err := again.YAML(); err != nil || string(z) != string(y) {
			t.Fatalf("not the same after a round trip: %v\n%s\nbecame\n%s", err, y, z)
		}
	})
}
