package plan

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/workload/record"
)

// write writes a record of two nodes, with a movable pod on one and another on the other.
func write(t *testing.T) string {
	t.Helper()
	const t0 = 1_700_000_000_000
	dir := filepath.Join(t.TempDir(), "r")
	w, err := record.Create(dir, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"a", "b"} {
		w.Node(record.Node{Name: n, From: t0, MilliCPU: 4000, Memory: 8 << 30, Pods: 10})
		w.Pod(record.Pod{UID: n, Namespace: "shop", Name: "web-" + n, OwnerKind: "ReplicaSet", OwnerName: "web", MilliCPU: 1000, Memory: 1 << 30, Arrived: t0, Bound: t0 + 1, Node: n})
	}
	w.Run(record.Run{ID: "1", From: t0, To: t0 + 60_000})
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func runPlan(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	app := &ucli.App{Writer: &out, ErrWriter: &bytes.Buffer{}, Commands: []*ucli.Command{Command()}}
	err := app.RunContext(t.Context(), append([]string{"gnnsched", "plan", "--log-dir", "", "--log-level", "error"}, args...))
	return out.String(), err
}

func TestPlan(t *testing.T) {
	dir := write(t)
	out, err := runPlan(t, "--at", "2023-11-14T22:13:30Z", dir)
	if err != nil || !strings.HasPrefix(out, "1 of 2 nodes become empty. Pods to move: 1, rounds: 1.") || !strings.Contains(out, "no PodDisruptionBudget at this time") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err = runPlan(t, "-o", "json", dir); err != nil || !strings.Contains(out, `"from": "a"`) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestBadInput(t *testing.T) {
	dir, cut := write(t), write(t)
	pods := filepath.Join(cut, "pods-000001.parquet")
	if err := os.Truncate(pods, 100); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "0 arguments"},
		{[]string{"--moves", "-1", dir}, "negative"},
		{[]string{"--memory", "much", dir}, "--memory"},
		{[]string{"-o", "xml", dir}, "--output"},
		{[]string{"--at", "noon", dir}, "--at"},
		{[]string{"--at", "2040-01-01T00:00:00Z", dir}, "after the end of the record"},
		{[]string{"--at", "2020-01-01T00:00:00Z", dir}, "no time is left"},
		{[]string{filepath.Join(dir, "none")}, "no such file"},
		{[]string{t.TempDir()}, "no part of a record"},
		{[]string{cut}, "the record has no pods"},
	} {
		_, err := runPlan(t, c.args...)
		var known *exit.Error
		if !errors.As(err, &known) || known.Code != exit.Usage || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.args, err, c.says)
		}
	}
}
