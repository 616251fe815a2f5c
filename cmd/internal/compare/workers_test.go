package compare

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/scheduler/eval/remote"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/server"
)

// sent returns the task of a course on a record, and its data.
func sent(t *testing.T, dir string) (task, remote.Blob) {
	t.Helper()
	out := task{
		Record:    &remote.File{Name: "prod.record", Blobs: map[string]string{}},
		Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}}, Seed: 1,
		Profile: server.Profile{SchedulerName: "x", Args: server.Args{Variant: server.DefaultProfile}},
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		out.Record.Blobs[f.Name()] = f.Name()
	}
	return out, func(name string) (string, error) { return filepath.Join(dir, name), nil }
}

// A task from elsewhere may not read this machine's files.
func TestHostileTasks(t *testing.T) {
	secret, err := filepath.Abs("../../../scheduler/policy/linear/linear.json")
	if err != nil {
		t.Fatal(err)
	}
	good, blob := sent(t, recorded(t))
	for want, change := range map[string]func(*task){
		"":                        func(*task) {},
		"no record":               func(x *task) { x.Record = nil },
		"did not come with it":    func(x *task) { x.Profile.Args = server.Args{Policy: heuristic.FromWeights(secret)} },
		"file that did not come ": func(x *task) { x.Profile.Checkpoint = secret },
		"no name of a file":       func(x *task) { x.Weights = &remote.File{Name: "../x"} },
		"excludes variant":        func(x *task) { x.Profile.Policy = "none" },
	} {
		x := good
		change(&x)
		data, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&Player{}).Play(t.Context(), data, blob)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
