package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/report"
	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/remote"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/server"
	"gnnsched/workload/record"
)

// execute runs the command.
func execute(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	app := &ucli.App{Name: "gnnsched", Writer: &o, ErrWriter: &e, Commands: []*ucli.Command{Command()}}
	code = cli.RunContext(context.Background(), app, append([]string{"gnnsched", "compare", "--log-dir", ""}, args...))
	return code, o.String(), e.String()
}

const t0 = 1_700_000_000_000

// flat joins the lines of a text.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// recorded writes a record of ten minutes: pods of one core, spread over three nodes though one would hold them.
func recorded(t *testing.T) string {
	return written(t, "prod", 3, 40_500, func(i int64) (cpu, node int64) { return 1000, i % 3 })
}

// written writes a record of ten minutes: 60 pods, each for some milliseconds, with the millicores and on the node that choose returns.
func written(t *testing.T, name string, nodes int, stays int64, choose func(i int64) (cpu, node int64)) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name+".record")
	w, err := record.Create(dir, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		name := fmt.Sprint("node-", i)
		w.Node(record.Node{
			Name: name, From: t0, MilliCPU: 8000, Memory: 32 << 30, Pods: 110,
			Labels: `{"kubernetes.io/hostname":"` + name + `","node.kubernetes.io/instance-type":"m"}`,
		})
	}
	for i := range int64(60) {
		at := t0 + i*10_000
		cpu, node := choose(i)
		w.Pod(record.Pod{UID: fmt.Sprint(i), Namespace: "shop", Name: fmt.Sprint("web-", i), MilliCPU: cpu, Memory: 1 << 30, Claims: `["data"]`,
			Arrived: at, Bound: at + 500, Ended: at + stays, End: record.Succeeded, Node: fmt.Sprint("node-", node)})
	}
	w.Run(record.Run{ID: "1", Source: "live", From: t0, To: t0 + 600_000})
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCommand(t *testing.T) {
	dir, prices := recorded(t), filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(prices, []byte("nodes: {m: 0.5}"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := execute(t, "--profile", "most-allocated", "--prices", prices, "-o", "json", dir)
	if code != exit.OK {
		t.Fatalf("code %d: %s", code, errs)
	}
	var r result
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 3 || r.Rows[0].Name != reality || r.Rows[1].Name != "default-scheduler" || r.Rows[2].Name != "most-allocated" {
		t.Fatalf("%+v", r.Rows)
	}
	really, packed := r.Rows[0], r.Rows[2]
	if really.Pods != 60 || really.Figures["wait_s"] != 0.5 || packed.Figures["wait_s"] != 0 || packed.Unscheduled != 0 {
		t.Errorf("%+v\n%+v", really, packed)
	}
	if n, p := packed.Figures["nodes_in_use"],
		packed.Figures[priceFigure]; n < 0.99 || n > 1.01 || p < 0.49 || p > 0.51 || really.Figures["nodes_in_use"] < 2.9 {
		t.Errorf("%v nodes for %v, really %v", n, p, really.Figures["nodes_in_use"])
	}
	if d := packed.Differences["nodes_in_use"]; d.Low == nil || !(*d.Low <= d.Mean && d.Mean <= *d.High && *d.High < -1) {
		t.Errorf("%+v", d)
	}
	if _, again, _ := execute(t, "--profile", "most-allocated", "--prices", prices, "-o", "json", dir); again != out {
		t.Error("equal seeds give unequal output")
	}
	code, out, errs = execute(t, "--profile", "most-allocated", dir)
	if code != exit.OK || !strings.HasPrefix(out, "most-allocated costs more than default-scheduler: cost +0.1") ||
		!strings.Contains(out, "-0.50 (-0.50 to -0.50)") ||
		!strings.Contains(out, "volume claims: their pods are placed as if they had none (60 pods)") || strings.Contains(out, "price/h") {
		t.Errorf("code %d: %s\n%s", code, errs, out)
	}
	if code, out, _ = execute(t, "--profile", "most-allocated", "-o", "csv", dir); code != exit.OK || strings.Count(out, "\n") != 4 {
		t.Errorf("code %d:\n%s", code, out)
	}
}

// A record without the pods' binding times has no row of the real placements, and the output explains why.
func TestUnbound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trace.record")
	w, err := record.Create(dir, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Node(record.Node{Name: "a", From: t0, MilliCPU: 8000, Memory: 32 << 30, Pods: 110})
	w.Pod(record.Pod{
		UID: "1", Name: "x", MilliCPU: 1000, Arrived: t0 + 1000, Ended: t0 + 50_000, End: record.Deleted, Holds: `["resourceClaim"]`,
	})
	w.Run(record.Run{ID: "1", Source: "openb", From: t0, To: t0 + 60_000})
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	code, out, errs := execute(t, "--profile", "most-allocated", dir)
	if code != exit.OK || !strings.HasPrefix(out, "most-allocated ") ||
		strings.Contains(out, "│ really") || !strings.Contains(flat(out), "what really happened is not known: "+unrecorded) ||
		!strings.Contains(out, "resource claims: their pods are placed as if they had none") {
		t.Errorf("code %d: %s\n%s", code, errs, out)
	}
	code, out, _ = execute(t, "--profile", "most-allocated", "-o", "json", dir)
	var r result
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exit.OK || r.Unrecorded != unrecorded || len(r.Rows) != 2 ||
		r.Rows[0].Differences != nil || len(r.Rows[1].Differences) == 0 {
		t.Errorf("code %d, %v: %s", code, err, out)
	}
}

// Waits have no interval unless enough stretches of time have pods.
func TestSparseWaits(t *testing.T) {
	wait := figures[0]
	for _, c := range []struct {
		with int // stretches with pods
		has  bool
	}{{3, false}, {40, true}} {
		a, b := replay.Course{Blocks: make([]replay.Block, 512)}, replay.Course{Blocks: make([]replay.Block, 512)}
		for i := range a.Blocks {
			a.Blocks[i].Seconds, b.Blocks[i].Seconds = 1, 1
			if i%12 == 5 && i/12 < c.with {
				a.Blocks[i].Pods, b.Blocks[i].Pods = 2, 2
				b.Blocks[i].Waited = float64(10 + i*i%7)
			}
		}
		d := view{}.differ(runs{a}, runs{b}, wait, rand.New(rand.NewPCG(1, 1)))
		if (d.Low != nil) != c.has || c.has && !(5 < *d.Low && *d.Low < d.Mean && d.Mean < *d.High && *d.High < 8) {
			t.Errorf("%d stretches: %s", c.with, d.text(wait))
		}
	}
}

// With --html, JSON holds what was seen, and the page has the verdicts, the figures of all rows and their differences from the present
// profile.
func TestHTML(t *testing.T) {
	dir, out := recorded(t), filepath.Join(t.TempDir(), "page.html")
	code, text, errs := execute(t, "--profile", "most-allocated", "--objective", "pack", "-o", "json", "--html", out, dir)
	var r result
	if err := json.Unmarshal([]byte(text), &r); code != exit.OK || err != nil || r.Observed == nil {
		t.Fatalf("code %d, %v: %s", code, err, errs)
	}
	checkOverTime(t, r.Observed)
	if page, err := os.ReadFile(out); err != nil || !strings.Contains(string(page), "gnnsched compare --html="+out) {
		t.Errorf("the page does not have its command, %v", err)
	}
	var run report.Run
	r.onto(&run)
	x := run.Scenarios[0]
	if x.Baseline != "default-scheduler" || x.Metrics[0].Name != "cost" || x.Observed.Soon != soon || len(x.Episodes) != 3 || len(x.Tables) != 2 {
		t.Errorf("%+v", x)
	}
	if len(run.Verdicts) != 2 || !strings.HasPrefix(run.Verdicts[1].Text, "How far the simulated") || run.Verdicts[0].State != report.Better {
		t.Errorf("%+v", run.Verdicts)
	}
	for _, d := range x.Differences {
		if d.Metric == "wait_s" && d.Contender == reality && d.Mean != 0.5 || d.Metric == "nodes_in_use" && d.Contender == "most-allocated" &&
			(d.High == nil || *d.High > -1) {
			t.Errorf("%+v", d)
		}
	}
	if len(x.Differences) != 12 {
		t.Errorf("%d differences, want six figures of two rows", len(x.Differences))
	}
	if code, _, errs := execute(t, "--html", filepath.Join(out, "below"), dir); code != exit.Usage || !strings.Contains(errs, "--html") {
		t.Errorf("code %d: %s", code, errs)
	}
}

// checkOverTime checks the frames, placements and waits of the record of recorded.
func checkOverTime(t *testing.T, run *eval.Observed) {
	t.Helper()
	for _, name := range []string{reality, "default-scheduler", "most-allocated"} {
		var frames []eval.Frame
		busy := 0
		for _, f := range run.Frames {
			if f.Contender == name {
				frames = append(frames, f)
				for _, n := range f.Nodes {
					if n.Pods > 0 {
						busy++
					}
				}
			}
		}
		if len(frames) != 96 || frames[0].At != 0 || frames[95].At != 600 || len(frames[5].Nodes) != 3 ||
			(name == "most-allocated") != (busy < 100) {
			t.Errorf("%s: %d frames, in which %d nodes have pods", name, len(frames), busy)
		}
		var chosen []eval.Decision
		for _, d := range run.Decisions {
			if d.Contender == name {
				chosen = append(chosen, d)
			}
		}
		if len(chosen) != 60 || chosen[7].Pod != "shop/web-7" || chosen[7].Class != "1 CPU, 1 GiB" ||
			(name == reality) != (chosen[7].Feasible == 0 && chosen[7].Waited == 0.5) || (name == reality) != (chosen[7].RunnerUp == "") {
			t.Errorf("%s: %d placements, such as %+v", name, len(chosen), chosen[7])
		}
		for _, w := range run.Waits {
			if w.Contender == name && (w.Class != "1 CPU, 1 GiB" || w.Pods != 60 || w.Waited != 0 || w.Never != 0 ||
				(name == reality) != (w.Mean > 0.49)) {
				t.Errorf("%+v", w)
			}
		}
	}
	if len(run.Waits) != 3 {
		t.Errorf("%+v", run.Waits)
	}
}

func TestFiles(t *testing.T) {
	dir, folder := recorded(t), t.TempDir()
	weights := filepath.Join("..", "..", "..", "scheduler", "policy", "linear", "linear.json")
	own := filepath.Join(folder, "own.safetensors")
	shipped, err := checkpoint.Shipped("gnn")
	if err != nil {
		t.Fatal(err)
	}
	if err := shipped.Save(own); err != nil {
		t.Fatal(err)
	}
	stock := filepath.Join("..", "..", "..", "scheduler", "server", "testdata", "written.yaml")
	code, out, errs := execute(t, "--checkpoint", own, "--checkpoint", "tuned="+weights, "--checkpoint", "weights="+stock, "-o", "csv", dir)
	if code != exit.OK {
		t.Fatalf("code %d: %s", code, errs)
	}
	for i, name := range []string{reality, "default-scheduler", "own", "tuned", "weights"} {
		if line := strings.Split(out, "\n")[i+1]; !strings.HasPrefix(line, name) {
			t.Errorf("row %d is %q, want %s", i, line, name)
		}
	}
	if strings.Count(out, "\n") != 6 {
		t.Errorf("want five rows, without the default of --profile:\n%s", out)
	}
	if code, out, _ := execute(t, "--checkpoint", own, "--profile", "gnn", "-o", "json", dir); code != exit.OK {
		t.Errorf("code %d", code)
	} else {
		var r result
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		mine, theirs := r.Rows[3], r.Rows[2]
		if mine.Name != "own" || theirs.Name != "gnn" || !maps.Equal(mine.Figures, theirs.Figures) {
			t.Errorf("a copy of the shipped network decides differently:\n%+v\n%+v", mine, theirs)
		}
	}
	if code, _, errs := execute(t, "--checkpoint", "none.safetensors", dir); code != exit.Checkpoint {
		t.Errorf("code %d: %s", code, errs)
	}
	if code, _, errs := execute(t, "--checkpoint", "gnn="+own, "--profile", "gnn", dir); code != exit.Usage ||
		!strings.Contains(errs, "there is a profile gnn already") {
		t.Errorf("code %d: %s", code, errs)
	}
}

// The cluster's scheduler has a configuration that packs. The first line, the baseline and the row use this configuration.
func TestPresentFile(t *testing.T) {
	dir, folder := recorded(t), t.TempDir()
	file := filepath.Join(folder, "packs.yaml")
	text := `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      disabled: [{name: NodeResourcesBalancedAllocation}, {name: PodTopologySpread}, {name: ImageLocality}]
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(args ...string) (r result) {
		t.Helper()
		code, out, errs := execute(t, append(args, "-o", "json", dir)...)
		if code != exit.OK {
			t.Fatalf("code %d: %s", code, errs)
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := read("--present", file, "--profile", "default")
	if len(r.Rows) != 3 || r.Rows[1].Name != "packs" || r.Rows[2].Name != "default-scheduler" {
		t.Fatalf("%+v", r.Rows)
	}
	really, packs, spreads := r.Rows[0].Figures["nodes_in_use"], r.Rows[1].Figures["nodes_in_use"], r.Rows[2].Figures["nodes_in_use"]
	if packs > 1.01 || spreads < 2 {
		t.Errorf("%v nodes in use with the file, %v without", packs, spreads)
	}
	if d := r.Rows[1].Differences["nodes_in_use"].Mean; math.Abs(d-(packs-really)) > 1e-9 {
		t.Errorf("%v nodes from what really happened, want %v", d, packs-really)
	}
	if d := r.Rows[2].Differences["nodes_in_use"].Mean; math.Abs(d-(spreads-packs)) > 1e-9 {
		t.Errorf("%v nodes from the baseline, want %v", d, spreads-packs)
	}
	if code, out, _ := execute(t, "--present", "now="+file, dir); code != exit.OK || !strings.HasPrefix(out, "gnn costs ") ||
		!strings.Contains(flat(out), "The column now has its distance from what really happened.") {
		t.Errorf("code %d: %s", code, out)
	}
	for say, args := range map[string][]string{
		"--present: ": {"--present", "none.yaml"},
		"--profile gnn: the file of --present has that name": {"--present", "gnn=" + file},
		"there is a profile packs already":                   {"--present", file, "--checkpoint", file},
	} {
		if code, _, errs := execute(t, append(args, dir)...); code != exit.Usage || !strings.Contains(errs, say) {
			t.Errorf("%v: code %d, want %q: %s", args, code, say, errs)
		}
	}
}

func TestBadInput(t *testing.T) {
	dir, bad := recorded(t), filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("nodes: {m: -1}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		say  string
	}{
		{nil, "want the folder of a record"},
		{[]string{filepath.Join(dir, "none")}, "no such file"},
		{[]string{t.TempDir()}, "no part of a record"},
		{[]string{"--profile", "gn", dir}, `no profile is called "gn" (did you mean gnn?)`},
		{[]string{"--present", "gn", dir}, "--present"},
		{[]string{"--objective", "usage-balance", dir}, "cannot measure usage"},
		{[]string{"--objective", "balance,traffic", dir}, "who talks to whom"},
		{[]string{"--objective", "joy", dir}, "joy"},
		{[]string{"--prices", bad, dir}, "must be 0 or more"},
		{[]string{"--prices", dir + ".yaml", dir}, "no such file"},
		{[]string{"--from", "2030-01-01T00:00:00Z", dir}, "no time is left"},
		{[]string{"-o", "xml", dir}, "choose table, csv or json"},
	} {
		if code, _, errs := execute(t, c.args...); code != exit.Usage || !strings.Contains(errs, c.say) {
			t.Errorf("%v: code %d, want %q:\n%s", c.args, code, c.say, errs)
		}
	}
}

// large writes a record of an hour of many nodes with long names, on which pods of many sizes come and go.
func large(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "large.record")
	w, err := record.Create(dir, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const nodes, pods = 600, 500
	name := func(i int) string {
		return fmt.Sprintf("gke-production-europe-west4-pool-%d-%08x", i%7, uint32(i)*2654435761)
	}
	for i := range nodes {
		w.Node(record.Node{
			Name: name(i), From: t0, MilliCPU: 8000, Memory: 32 << 30, Pods: 110, Labels: `{"kubernetes.io/hostname":"` + name(i) + `"}`,
		})
	}
	for i := range int64(pods) {
		at := t0 + i*7000
		w.Pod(record.Pod{UID: fmt.Sprint(i), Namespace: "shop-" + fmt.Sprint(i%9), Name: fmt.Sprintf("checkout-with-a-long-name-%d", i),
			MilliCPU: 250 * (1 + i%20), Memory: (1 + i%20) << 30,
			Arrived: at, Bound: at + 500 + i%5000, Ended: at + 900_000, End: record.Deleted, Node: name(int(i*7) % nodes)})
	}
	w.Run(record.Run{ID: "1", Source: "live", From: t0, To: t0 + 3_600_000})
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The page of a record of many nodes and pods has every part, in at most 3 MB.
func TestPage(t *testing.T) {
	out := filepath.Join(t.TempDir(), "page.html")
	if code, _, errs := execute(t, "--profile", "most-allocated", "--seeds", "2", "--html", out, large(t)); code != exit.OK {
		t.Fatalf("code %d: %s", code, errs)
	}
	page, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(page); n > 3_000_000 || n < 200_000 {
		t.Errorf("%d bytes", n)
	}
	for _, part := range []string{
		"compare on large.record", "a record of 2023-11-14T22:13:20Z to", "Against default-scheduler", "Every metric", "The cluster over time",
		"Waiting by class", "Pods that waited more than 1 second, by class",
		"under 4 CPU", "Decisions", "shop-0/checkout-with-a-long-name-0", "CPU of each node over time with really: at the end 600 nodes",
		"Do it again",
	} {
		if !strings.Contains(string(page), part) {
			t.Errorf("the page lacks %q", part)
		}
	}
}

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

// judged returns a result whose replay is off by a distance, and in which a profile's cost and waiting differ by intervals.
func judged(distance float64, cost, waiting difference) result {
	return result{Rows: []row{
		{Name: reality, Pods: 9}, {Name: "now", Pods: 9, Differences: map[string]difference{"cost": {Mean: distance}}},
		{Name: "gnn", Pods: 9, Differences: map[string]difference{"cost": cost, "waiting_pods": waiting}},
	}}
}

func from(low, high float64) difference {
	return difference{Mean: (low + high) / 2, Low: &low, High: &high}
}

// A profile is better or worse only if the whole interval is beyond the distance between replay and reality.
func TestVerdict(t *testing.T) {
	same := from(0, 0)
	for _, c := range []struct {
		name  string
		r     result
		state report.State
		say   string
	}{
		{"beyond", judged(-0.02, from(-0.06, -0.03), same), report.Better,
			"gnn costs less than now: cost -0.04500 (-0.06000 to -0.03000), and the replay is off by 0.02000"},
		{"worse", judged(0.02, from(0.03, 0.06), same), report.Worse, "gnn costs more than now"},
		{"within the distance", judged(0.02, from(-0.06, -0.01), same), report.Unclear, "gnn costs less than now in the replay only"},
		{"all within", judged(0.02, from(0.001, 0.002), same), report.Unclear, "gnn costs more than now in the replay only"},
		{"around 0", judged(0, from(-0.01, 0.01), same), report.Level, "gnn costs as much as now"},
		{"too little time", judged(0, difference{Mean: -1}, same), report.Note, "over too little time"},
		{"cheaper, but pods wait", judged(0.02, from(-0.06, -0.03), from(1, 3)), report.Note, "but more pods wait: +2.00 (+1.00 to +3.00)"},
	} {
		if v := c.r.verdict(c.r.Rows[2]); v.State != c.state || !strings.Contains(v.Text, c.say) {
			t.Errorf("%s: %+v, want %s: %s", c.name, v, c.state, c.say)
		}
	}
	idle := judged(0, same, same)
	for i := range idle.Rows {
		idle.Rows[i].Pods = 0
	}
	if v := idle.verdict(idle.Rows[2]); v.State != report.Note ||
		v.Text != "gnn: no pod came within this time, so nothing can be compared" {
		t.Errorf("without pods: %+v", v)
	}
	unknown := judged(0, from(-0.06, -0.03), same)
	unknown.Rows, unknown.Unrecorded = unknown.Rows[1:], unrecorded
	if v := unknown.verdict(unknown.Rows[1]); v.State != report.Unclear || !strings.Contains(v.Text, "not known") {
		t.Errorf("without what really happened: %+v", v)
	}
}

// Which seeds are drawn does not change a verdict, though a profile that draws places pods otherwise with each. With the same seeds it draws
// the same.
// Every line fits the width of the terminal.
func TestSeedsDoNotFlipVerdicts(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	// draws decide the cost: few pods of many sizes on equal nodes
	dir := written(t, "drawing", 4, 30_500, func(i int64) (cpu, node int64) { return 300 * (1 + i%7), i * i % 4 })
	first := ""
	for _, seed := range []string{"1", "7", "4711"} {
		code, out, errs := execute(t, "--present", "round-robin", "--profile", "random", "--seed", seed, "-o", "json", dir)
		var r result
		if err := json.Unmarshal([]byte(out), &r); code != exit.OK || err != nil || len(r.Seeds) != 5 {
			t.Fatalf("code %d, %v: %s", code, err, errs)
		}
		if first == "" {
			first = string(r.Verdicts[0].State)
			if _, again, _ := execute(t, "--present", "round-robin", "--profile", "random", "--seed", seed, "-o", "json", dir); again != out {
				t.Errorf("the same seeds give\n%s\nand\n%s", out, again)
			}
		}
		if got := string(r.Verdicts[0].State); got != first {
			t.Errorf("seed %s says %s, another one %s: %s", seed, got, first, r.Verdicts[0].Text)
		}
	}
	_, out, _ := execute(t, "--profile", "random", "--profile", "linear-pack", dir)
	for _, line := range strings.Split(out, "\n") {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if code, _, errs := execute(t, "--seeds", "1", dir); code != exit.Usage || !strings.Contains(errs, "one seed cannot tell") {
		t.Errorf("code %d: %s", code, errs)
	}
}
