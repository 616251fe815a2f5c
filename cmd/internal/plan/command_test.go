package plan

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/compare"
	"gnnsched/cmd/internal/convert"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/workload/record"
)

// write writes a record of two nodes, with a movable pod on one and another on the other. It was watched for a time.
func write(t *testing.T, seconds int64) string {
	t.Helper()
	const t0 = 1_700_000_000_000
	dir := filepath.Join(t.TempDir(), "r")
	w := fatal.Value(record.Create(dir, record.Options{}))(t)
	for _, n := range []string{"a", "b"} {
		w.Node(record.Node{
			Name: n, Labels: `{"topology.kubernetes.io/zone":"z-` + n + `","disk":"` + map[string]string{"a": "ssd", "b": "hdd"}[n] + `"}`, From: t0,
			MilliCPU: 4000, Memory: 8 << 30, Pods: 10,
		})
		w.Pod(record.Pod{
			UID: n, Namespace: "shop", Name: "web-" + n, OwnerKind: "ReplicaSet", OwnerName: "web", MilliCPU: 1000, Memory: 1 << 30,
			Arrived: t0 - 9000, Bound: t0 - 8000, Node: n,
		})
	}
	w.Run(record.Run{ID: "1", From: t0, To: t0 + seconds*1000})
	fatal.Value(w.Close())(t)
	return dir
}

func runPlan(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	app := &ucli.App{Writer: &out, ErrWriter: &bytes.Buffer{}, Commands: []*ucli.Command{Command(compare.AutoscalerFlags(), compare.Nodes)}}
	err := app.RunContext(t.Context(), append([]string{"gnnsched", "plan", "--log-dir", "", "--log-level", "error"}, args...))
	return out.String(), err
}

func TestPlan(t *testing.T) {
	dir := write(t, 60)
	out, err := runPlan(t, "--at", "2023-11-14T22:13:30Z", dir)
	if err != nil || !strings.HasPrefix(out, "1 of 2 nodes become empty. Pods to move: 1, rounds: 1.") ||
		!strings.Contains(out, "no PodDisruptionBudget at this time") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err = runPlan(t, "-o", "json", dir); err != nil || !strings.Contains(out, `"from": "a"`) {
		t.Errorf("%v\n%s", err, out)
	}
}

// What kubectl printed is planned with as if it had been converted, from a file or from standard input.
func TestOfKubectl(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in.json")
	text := `{"kind":"List","items":[`
	for _, n := range []string{"a", "b"} {
		text += `{"kind":"Node","metadata":{"name":"` + n + `"},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"}}},` +
			`{"kind":"Pod","metadata":{"name":"web-` + n + `","namespace":"shop","uid":"` + n + `","creationTimestamp":"2026-01-02T03:04:05Z",` +
			`"ownerReferences":[{"kind":"ReplicaSet","name":"web","controller":true}]},"spec":{"nodeName":"` + n + `"}},`
	}
	fatal.If(t, os.WriteFile(path, []byte(strings.TrimSuffix(text, ",")+"]}"), 0o600))
	in := fatal.Value(os.Open(path))(t)
	defer func(before *os.File) { os.Stdin = before }(os.Stdin)
	os.Stdin = in
	for _, from := range []string{path, "-"} {
		if out, err := runPlan(t, from); err != nil || !strings.HasPrefix(out, "1 of 2 nodes become empty.") {
			t.Errorf("%s: %v\n%s", from, err, out)
		}
	}
}

// A record of one kubectl file has no length, but all that is needed.
func TestOneInstant(t *testing.T) {
	if out, err := runPlan(t, write(t, 0)); err != nil || !strings.HasPrefix(out, "1 of 2 nodes become empty.") ||
		!strings.Contains(out, "kubectl drain a --ignore-daemonsets --dry-run=server") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Nodes are named, or selected by their zone and other labels.
func TestWithout(t *testing.T) {
	dir := write(t, 60)
	for _, by := range []string{"node=a", "zone=z-a", "disk in (ssd,nvme),topology.kubernetes.io/zone"} {
		out, err := runPlan(t, "--without", by, "--profile", "default", "--profile", "linear-pack", dir)
		if err != nil || !strings.HasPrefix(out, "Pods without a node if 1 of 2 nodes go at 2023-11-14T22:14:20Z, "+
			"the time of the plan: 0 with default-scheduler (0 before), 0 with linear-pack (0 before)\nnodes that go: a\n") {
			t.Errorf("%s: %v\n%s", by, err, out)
		}
	}
	if out, err := runPlan(t, "--without", "node=a", "-o", "json", dir); err != nil || !strings.Contains(out, `"displaced": 1`) {
		t.Errorf("%v\n%s", err, out)
	}
}

// With --nodes, the first lines say what to change of the NodePools and the autoscaler, for as few pods waiting as now.
func TestNodes(t *testing.T) {
	dir, types, pools := filepath.Join(t.TempDir(), "r"), filepath.Join(t.TempDir(), "types.yaml"), filepath.Join(t.TempDir(), "pools.yaml")
	w := fatal.Value(record.Create(dir, record.Options{}))(t)
	const t0, end = 1_700_000_000_000, 3 * 3600_000
	for i := range int64(40) {
		w.Pod(record.Pod{UID: fmt.Sprint(i), Namespace: "shop", Name: fmt.Sprint("web-", i), MilliCPU: 1000, Memory: 1 << 30, Arrived: t0 + i*100_000,
			Ended: min(t0+i*200_000+3600_000, t0+end), End: record.Succeeded})
	}
	w.Run(record.Run{ID: "1", Source: "live", From: t0, To: t0 + end})
	fatal.Value(w.Close())(t)
	fatal.If(t, os.WriteFile(types, []byte("[{name: m, resources: {cpu: 4, memory: 16Gi}, overhead: {}, offerings: [{price: 0.4}, {price: 0.1, spot: true}]}]"), 0o600))
	const of = "template: {spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [%s]}]}}}}\n---\n"
	fatal.If(t, os.WriteFile(pools, []byte(fmt.Sprintf("{kind: NodePool, metadata: {name: steady}, spec: {"+of+
		"{kind: NodePool, metadata: {name: spot}, spec: {limits: {cpu: 8}, "+of+"{kind: NodePool, metadata: {name: shut}, spec: {limits: {cpu: 0}}}",
		"on-demand", "spot")), 0o600))
	args := []string{"--nodes", "--autoscaler", "cluster-autoscaler", "--types", types, "--nodepools", pools, dir}
	fatal.Golden(t, "nodes.txt", fatal.Value(runPlan(t, args...))(t))
	few := []string{"--nodes", "--autoscaler", "cluster-autoscaler:price@0.5", "--types", types, dir}
	for say, more := range map[string][]string{
		`"answer": "Leave it as it is`:                                               {"-o", "json", "--at-most-waiting", "0.5"},
		"No setting that was tried keeps at most 0.01 pods waiting.":                 {"--at-most-waiting", "0.01"},
		"│ linear-pack, cluster-autoscaler:price@0.5 ":                               {"--profile", "default", "--profile", "linear-pack"},
		"without a file of NodePools, only the autoscaler's own settings are varied": nil,
	} {
		if out, err := runPlan(t, append(more, few...)...); err != nil || !strings.Contains(out, say) {
			t.Errorf("%q: %v\n%s", more, err, out)
		}
	}
}

func TestBadInput(t *testing.T) {
	dir, cut := write(t, 60), write(t, 60)
	pods := filepath.Join(cut, "pods-000001.parquet")
	fatal.If(t, os.Truncate(pods, 100))
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "0 arguments"},
		{[]string{"--moves", "-1", dir}, "negative"},
		{[]string{"--memory", "much", dir}, "--memory"},
		{[]string{"--search", "locale", dir}, "did you mean local?"},
		{[]string{"--search-time", "0s", dir}, "--search-time 0s is not over 0"},
		{[]string{"--search", "greedy", "--without", "node=a", dir}, "--search has no effect with --without"},
		{[]string{"-o", "xml", dir}, "--output"},
		{[]string{"--at", "noon", dir}, "--at"},
		{[]string{"--at", "2040-01-01T00:00:00Z", dir},
			"2040-01-01T00:00:00Z is not in the record, which is of 2023-11-14T22:13:20Z to 2023-11-14T22:14:20Z"},
		{[]string{"--at", "2020-01-01T00:00:00Z", dir}, "2020-01-01T00:00:00Z is not in the record"},
		{[]string{"--without", "node=c", dir}, "selects 0 of the 2 nodes"},
		{[]string{"--without", "a", dir}, "write --without node=a"},
		{[]string{"--without", "node=a", "--without", "node=b", dir}, "selects 2 of the 2 nodes"},
		{[]string{"--without", "a in b", dir}, "--without \"a in b\""},
		{[]string{"--without", "", dir}, "it selects every node"},
		{[]string{"--without", "node=a", "--moves", "3", dir}, "--moves has no effect with --without"},
		{[]string{"--profile", "gnn", dir}, "--profile has no effect without --without or --nodes"},
		{[]string{"--nodes", dir}, "add --autoscaler NAME"},
		{[]string{"--nodes", "--without", "node=a", "--autoscaler", "none", dir}, "leave one of them out"},
		{[]string{"--nodes", "--autoscaler", "none", "--memory", "1Gi", dir}, "--memory has no effect with --nodes"},
		{[]string{"--nodes", "--autoscaler", "none", "--at", "2023-11-14T22:13:30Z", dir}, "--at has no effect with --nodes"},
		{[]string{"--nodes", "--autoscaler", "nobody", dir}, "no autoscaler is called"},
		{[]string{"--nodes", "--autoscaler", "none", "--at-most-waiting", "-1", dir}, "must be 0 or more"},
		{[]string{"--autoscaler", "none", dir}, "--autoscaler has no effect without --nodes: add it"},
		{[]string{"--without", "node=a", "--types", "x", dir}, "--types has no effect without --nodes: add it"},
		{[]string{"--without", "node=a", "--profile", "none", dir}, "no profile is called"},
		{[]string{filepath.Join(dir, "none")}, "no such file"},
		{[]string{t.TempDir()}, "no part of a record"},
		{[]string{cut}, "the record has no pods"},
	} {
		_, err := runPlan(t, c.args...)
		var known *exit.Error
		if !errors.As(err, &known) || known.Code != exit.Usage || !strings.Contains(err.Error()+known.Hint, c.says) {
			t.Errorf("%v: %v, want %q", c.args, err, c.says)
		}
	}
}

// Each folder of testdata/cases has what kubectl printed of a small cluster, most from public reports of bugs, and the right plan.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*/in.json")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, path := range files {
		name := filepath.Base(filepath.Dir(path))
		t.Run(name, func(t *testing.T) {
			out := fatal.Value(runPlan(t, convertOf(t, path)))(t)
			fatal.Golden(t, "cases/"+name+"/plan.txt", out)
		})
	}
}

// convertOf makes a record of a file, as of December 2026, a week after its pods came.
func convertOf(t *testing.T, path string) string {
	t.Helper()
	text := fatal.Value(os.ReadFile(path))(t)
	dir, at := t.TempDir(), time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	in, out := filepath.Join(dir, "in.json"), filepath.Join(dir, "x.record")
	fatal.If(t, os.WriteFile(in, text, 0o644))
	fatal.If(t, os.Chtimes(in, at, at))
	app := &ucli.App{Writer: &bytes.Buffer{}, ErrWriter: &bytes.Buffer{}, Commands: []*ucli.Command{convert.Command()}}
	fatal.If(t, app.RunContext(t.Context(), []string{"gnnsched", "convert", "--log-dir", "", "--log-level", "error", "--out", out,
		in}))
	return out
}
