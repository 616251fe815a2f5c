package runfolder

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	clocktest "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ptr(v float64) *float64 { return &v }

// Written rows are read back equal.
func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "run")
	m := Manifest{
		Kind: "eval", Title: "two policies", Command: []string{"gnnsched", "eval", "--api-token", "abc"}, Version: "v1",
		Seeds: []uint64{1, 1 << 60}, Settings: map[string]string{"token": "abc", "seeds": "2"},
	}
	clock := clocktest.NewFakePassiveClock(noon)
	w, err := Create(dir, m, clock)
	if err != nil {
		t.Fatal(err)
	}
	want := &Run{
		Dir:         dir,
		Scenarios:   []Scenario{{Name: "s", Baseline: "a", Samples: 2, Metrics: []Metric{{Name: "cost", Title: "objective", Digits: 4}}}},
		Verdicts:    []Verdict{{Scenario: "s", Contender: "b", State: Better, Text: "b is <script>better</script>"}},
		Episodes:    []Episode{{Scenario: "s", Contender: "b", Seed: 1 << 60, Values: map[string]float64{"cost": 0.25}}},
		Differences: []Difference{{Scenario: "s", Contender: "b", Metric: "cost", Mean: -1, Low: ptr(-2), High: ptr(0)}},
		Frames:      []Frame{{Scenario: "s", Contender: "b", At: 3, Waiting: 1, Nodes: []Node{{Name: "n", CPU: 0.5, Memory: 1, Pods: 3}}}},
		Waits:       []Waits{{Scenario: "s", Contender: "b", Class: "1 CPU", Pods: 2, Quantiles: []float64{0, 1, 1, 1, 1}}},
		Decisions:   []Decision{{Contender: "b", Pod: "ns/p", Node: "n", Score: 1}},
		Tables:      []Table{{Title: "t", Columns: []string{"x"}, Rows: [][]string{{"1"}}}},
		Scalars:     []Scalar{{"eval/cost", 100, 0.5}},
	}
	w.Add(want.Scenarios[0], want.Verdicts[0], want.Episodes[0], want.Differences[0], want.Frames[0], want.Waits[0], want.Decisions[0],
		want.Tables[0])
	write(t, dir, "scalars.csv", "step,tag,value\n100,eval/cost,0.5\n200,eval/cost,NaN\n300,ev")
	clock.SetTime(noon.Add(time.Minute))
	if err := w.Close(errors.New("interrupted")); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(Run{}, "Manifest")); d != "" {
		t.Error(d)
	}
	ended := noon.Add(time.Minute)
	m.Schema, m.Started, m.Ended, m.Error = schema, noon, &ended, "interrupted"
	m.Command, m.Settings = []string{"gnnsched", "eval", "--api-token", hidden}, map[string]string{"token": hidden, "seeds": "2"}
	if d := cmp.Diff(m, got.Manifest, cmpopts.IgnoreFields(Manifest{}, "Platform")); d != "" {
		t.Error(d)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A second run does not mix with the first.
func TestCreateRefusesAnotherRun(t *testing.T) {
	for _, name := range []string{manifestFile, "frames.jsonl"} {
		dir := t.TempDir()
		write(t, dir, name, "{}\n")
		if _, err := Create(dir, Manifest{Kind: "eval"}, clocktest.NewFakePassiveClock(noon)); exit.Code(err) != exit.Usage ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	dir := t.TempDir()
	write(t, dir, "file", "")
	if _, err := Create(filepath.Join(dir, "file"), Manifest{}, clocktest.NewFakePassiveClock(noon)); exit.Code(err) != exit.Usage {
		t.Errorf("a file in place of the folder: %v", err)
	}
}

// A folder in which a run cannot begin holds no run, so that the command can be tried again. All failures but a full disk are usage errors.
func TestCreateThatFails(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, reserve), 0o755); err != nil { // in the way, as a full disk is
		t.Fatal(err)
	}
	clock := clocktest.NewFakePassiveClock(noon)
	if _, err := Create(dir, Manifest{Kind: "eval"}, clock); exit.Code(err) != exit.Usage {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v: want nothing", left, err)
	}
	if _, err := Create(dir, Manifest{Kind: "eval"}, clock); err != nil {
		t.Error(err)
	}
	for err, want := range map[error]int{syscall.ENOSPC: exit.Internal, syscall.EDQUOT: exit.Internal, syscall.EACCES: exit.Usage} {
		if got := exit.Code(refused("run", &os.PathError{Op: "write", Path: "run", Err: err})); got != want {
			t.Errorf("%v: code %d, want %d", err, got, want)
		}
	}
}

// A file takes no more than its limit, and the manifest counts the missing rows.
func TestLimit(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir, Manifest{Kind: "eval"}, clocktest.NewFakePassiveClock(noon))
	if err != nil {
		t.Fatal(err)
	}
	w.limit = 1000
	for range 30 {
		w.Add(Verdict{State: Note, Text: strings.Repeat("x", 60)})
	}
	if err := w.Failed(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v, %v: want the manifest and the verdicts", left, err)
	}
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if kept, dropped := len(r.Verdicts), r.Manifest.Dropped["verdicts.jsonl"]; kept < 5 || kept+dropped != 30 {
		t.Errorf("%d rows kept and %d dropped", kept, dropped)
	}
	if r.Manifest.Ended == nil || r.Manifest.Error != "" {
		t.Errorf("%+v", r.Manifest)
	}
}

// A row that cannot be written does not affect other rows. The folder is marked incomplete, and Close returns the error.
func TestIncomplete(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir, Manifest{Kind: "eval"}, clocktest.NewFakePassiveClock(noon))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "frames.jsonl"), 0o755); err != nil { // in the way, as a full disk is
		t.Fatal(err)
	}
	for range 3 {
		w.Add(Verdict{State: Note, Text: "kept"}, Frame{Contender: "gnn"}, Verdict{State: Note, Text: strings.Repeat("x", maxLine)})
	}
	if err := w.Close(nil); exit.Code(err) != exit.Internal || !strings.Contains(err.Error(), "is incomplete") ||
		!strings.Contains(err.Error(), "frames.jsonl") {
		t.Errorf("%v", err)
	}
	if err := os.Remove(filepath.Join(dir, "frames.jsonl")); err != nil {
		t.Fatal(err)
	}
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if m := r.Manifest; len(r.Verdicts) != 3 || m.Dropped["frames.jsonl"] != 3 || m.Dropped["verdicts.jsonl"] != 3 || len(m.Notes) != 1 ||
		!strings.HasPrefix(m.Notes[0], "This folder is incomplete: ") || m.Ended == nil {
		t.Errorf("%d verdicts, %+v", len(r.Verdicts), m)
	}
}

// A file that was cut off is read up to there. Other faults are errors that name the place.
func TestReadBadInput(t *testing.T) {
	const manifest = `{"schema":1,"kind":"eval"}`
	for _, c := range []struct{ name, file, text, want string }{
		{"cut off", "verdicts.jsonl", "{\"state\":\"note\",\"text\":\"a\"}\n{\"sta", ""},
		{"no JSON", "verdicts.jsonl", "\n{\"text\":\"a\"}\nnope\n", "verdicts.jsonl:3"},
		{"no text", "verdicts.jsonl", "{}\n", "verdicts.jsonl:1: text is missing"},
		{"cells", "tables.jsonl", `{"title":"t","columns":["a"],"rows":[["1","2"]]}` + "\n", "row 1 has 2 cells"},
		{"quantiles", "waits.jsonl", `{"class":"c","quantiles":[1]}` + "\n", "1 quantiles, want 5"},
		{"newer", manifestFile, `{"schema":2}`, "schema 2"},
		{"manifest", manifestFile, `{`, "manifest.json"},
		{"scalars", "scalars.csv", "step,tag,value\n1,a,b\n", "scalars.csv:2"},
		{"columns", "scalars.csv", "step,tag\n1,a\n", "wrong number of fields"},
	} {
		dir := t.TempDir()
		write(t, dir, manifestFile, manifest)
		write(t, dir, c.file, c.text)
		r, err := Read(dir)
		switch {
		case c.want == "" && (err != nil || len(r.Verdicts) != 1 || len(r.Notes) != 1):
			t.Errorf("%s: %+v, %v", c.name, r, err)
		case c.want != "" && (exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := Read(t.TempDir()); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "no folder of a run") {
		t.Errorf("an empty folder: %v", err)
	}
	dir := t.TempDir()
	write(t, dir, "scalars.csv", "step,tag,value\n1,a,2\n")
	if r, err := Read(dir); err != nil || r.Manifest.Kind != "gnntrain" || len(r.Scalars) != 1 || len(r.Notes) != 1 {
		t.Errorf("curves alone: %+v, %v", r, err)
	}
}

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"--password=hunter2":                      "--password=REDACTED",
		"--server=https://joe:pw@example.com/x":   "--server=https://example.com/x",
		"https://e.com/?access_token=abc&x=1":     "https://e.com/?access_token=REDACTED&x=1",
		"https://e.com/?x=1":                      "https://e.com/?x=1",
		"Authorization: Bearer abc.def":           "Authorization: REDACTED",
		"eyJhbGciOiJSUzI1NiIs.eyJpc3MiOiJr.c2ln-": "REDACTED",
		"--seeds=3": "--seeds=3",
	} {
		if got := redactCommand([]string{in})[0]; got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	got := redactCommand([]string{"p", "--bearer-token", "abc", "--seeds", "3", "--token", "--out", "x"})
	if want := []string{"p", "--bearer-token", hidden, "--seeds", "3", "--token", "--out", "x"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// Summarise agrees with counting.
func TestSummarise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOf(rapid.Float64Range(0.1, 9)).Draw(t, "times")
		atOnce, never := rapid.IntRange(0, 5).Draw(t, "at once"), rapid.IntRange(0, 3).Draw(t, "never")
		all := append(make([]float64, atOnce), times...)
		var w Waits
		w.Summarise(atOnce, times, never)
		if w.Pods != len(all)+never || w.Never != never || w.Waited != len(times)+never || len(all) > 0 && len(w.Quantiles) != len(Quantiles) {
			t.Fatalf("%+v", w)
		}
		for i, v := range w.Quantiles {
			least := 0
			for _, x := range all {
				if x <= v {
					least++
				}
			}
			if float64(least) < Quantiles[i]*float64(len(all)) || !slices.Contains(all, v) {
				t.Fatalf("quantile %v of %v is %v", Quantiles[i], all, v)
			}
		}
	})
}

// A tally has a class for each request, or a few if there are many. It counts only pods that did not get a node soon as having waited.
func TestTally(t *testing.T) {
	core := func(n int64) cluster.Resources { return cluster.Resources{MilliCPU: 1000 * n, Memory: n << 30} }
	tally := Tally{Soon: 1}
	for _, wait := range []float64{0, 0.5, 1, 2} {
		tally.Add("a", core(1), wait, true)
	}
	tally.Add("a", core(2), 9, false)
	tally.Add("b", core(1), 3, true)
	rows := tally.Rows("s", "a", "b", "c")
	if len(rows) != 3 {
		t.Fatalf("%+v", rows)
	}
	first, second, third := rows[0].(Waits), rows[1].(Waits), rows[2].(Waits)
	if first.Class != "1 CPU, 1 GiB" || first.Pods != 4 || first.Waited != 1 || first.Mean != 0.875 || first.Quantiles[4] != 2 ||
		second.Never != 1 || second.Waited != 1 || third.Contender != "b" || third.Waited != 1 {
		t.Errorf("%+v", rows)
	}
	for n := range int64(12) {
		tally.Add("b", core(n+2), 0, true)
	}
	if got := tally.Rows("s", "a")[0].(Waits).Class; got != "under 4 CPU" {
		t.Errorf("of 13 requests the class is %q", got)
	}
}

// A frame has no control plane, unless there is nothing else.
func TestWorkers(t *testing.T) {
	node := func(name string, taints ...cluster.Taint) *cluster.Node {
		return &cluster.Node{
			Name: name, Taints: taints, Allocatable: cluster.Resources{MilliCPU: 3000, Memory: 4},
			Requested: cluster.Resources{MilliCPU: 1000, Memory: 1, Pods: 2},
		}
	}
	control := node("c", cluster.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: cluster.NoSchedule})
	if got := Workers([]*cluster.Node{control, node("a", cluster.Taint{Key: "gpu", Effect: cluster.NoSchedule})}); len(got) != 1 ||
		got[0] != (Node{Name: "a", CPU: 0.3333, Memory: 0.25, Pods: 2}) {
		t.Errorf("%+v", got)
	}
	if got := Workers([]*cluster.Node{control}); len(got) != 1 || got[0].Name != "c" {
		t.Errorf("%+v", got)
	}
}

// FuzzRead reads any folder without a panic, and can write the result.
func FuzzRead(f *testing.F) {
	f.Add(`{"schema":1}`, `{"contender":"a","pod":"p"}`+"\n", "step,tag,value\n1,a,2\n")
	f.Add(`{"schema":1,"ended":"2026-01-01T00:00:00Z"}`, "{", "\n\"")
	f.Fuzz(func(t *testing.T, manifest, lines, scalars string) {
		dir := t.TempDir()
		write(t, dir, manifestFile, manifest)
		for _, name := range rowFiles() {
			write(t, dir, name, lines)
		}
		write(t, dir, "scalars.csv", scalars)
		r, err := Read(dir)
		if err != nil {
			if exit.Code(err) != exit.Usage {
				t.Fatal(err)
			}
			return
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
}
