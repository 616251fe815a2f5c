package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/logging"
	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/eval/testbed/inprocess"
	"gnnsched/workload/record"
)

// executeLive runs the command with clusters in this process.
func executeLive(ctx context.Context, l testbed.Launcher, args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	live := command(func(string) (testbed.Launcher, error) { return l, nil })
	app := &ucli.App{Name: "gnnsched", Writer: &o, ErrWriter: &e, Commands: []*ucli.Command{live}}
	code = cli.RunContext(ctx, app, append([]string{"gnnsched", "compare", "--log-dir", "", "--live", "--profile", "most-allocated"}, args...))
	return code, o.String(), e.String()
}

// forced writes a record of 60 seconds whose pods have one place to go. Four seconds between two events, and 32 behind the last one, are
// long for a machine that plays it at speed 4.
func forced(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "forced.record")
	w, err := record.Create(dir, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tier := range []string{"a", "b", "c"} {
		w.Node(record.Node{Name: "node." + tier, From: t0 + 100, MilliCPU: 4000, Memory: 32 << 30, Pods: 110, Labels: `{"tier":"` + tier + `"}`})
	}
	pod := func(name, tier string, cpu int64, arrived, bound, ended int64) {
		p := record.Pod{
			UID: name, Namespace: "shop", Name: name, MilliCPU: cpu, Memory: 1 << 30, NodeSelector: `{"tier":"` + tier + `"}`,
			Arrived: t0 + arrived*1000,
		}
		if bound != 0 {
			p.Bound, p.Node = t0+bound*1000+100, "node."+tier
		}
		if ended != 0 {
			p.Ended, p.End = t0+ended*1000, record.Deleted
		}
		w.Pod(p)
	}
	pod("old", "a", 1000, -100, -100, 0)
	pod("first", "b", 3000, 4, 4, 20)
	pod("second", "b", 3000, 8, 20, 0) // has room when first leaves
	pod("huge", "c", 9000, 12, 0, 0)
	pod("refused", "none", 1000, 16, 0, 28)
	w.Run(record.Run{ID: "1", Source: "live", From: t0, To: t0 + 60_000})
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The record is played on clusters. Where the constraints leave no choice, live and simulated rows agree.
func TestLive(t *testing.T) {
	logging.DropKlog()
	dir := forced(t)
	folder := filepath.Join(t.TempDir(), "run")
	code, out, errs := executeLive(t.Context(), inprocess.Launcher{}, "--speed", "4", "-o", "json", "--out", folder, dir)
	var r result
	if err := json.Unmarshal([]byte(out), &r); code != exit.OK || err != nil {
		t.Fatalf("code %d, %v: %s", code, err, errs)
	}
	for _, x := range r.Rows[1:] {
		l := x.Live
		if l == nil {
			t.Fatalf("%s has no live row", x.Name)
		}
		if l.Pods != x.Pods || l.Unscheduled != x.Unscheduled || l.NeverRan != x.NeverRan || l.Preempted+float64(l.Fallbacks) != 0 ||
			x.Pods != 4 || x.Unscheduled != 1 || x.NeverRan != 1 {
			t.Errorf("%s: live %+v, simulated %+v", x.Name, l, x)
		}
		waits := math.Abs(l.Figures["waiting_pods"] - x.Figures["waiting_pods"])
		if d := math.Abs(l.Figures["nodes_in_use"] - x.Figures["nodes_in_use"]); d > waits+l.Late.Most/60+0.1 {
			t.Errorf("%s: %v nodes in use live, %v simulated", x.Name, l.Figures["nodes_in_use"], x.Figures["nodes_in_use"])
		}
		if w := l.Figures["wait_s"]; w < 5.9 { // second waits for first, and refused for its end: 24 s of four pods
			t.Errorf("%s: pods waited %v s live", x.Name, w)
		}
		if d := l.Differences["nodes_in_use"].Mean; math.Abs(d-(l.Figures["nodes_in_use"]-x.Figures["nodes_in_use"])) > 1e-9 ||
			len(l.Differs) < 3 {
			t.Errorf("%s: difference %v, %q", x.Name, d, l.Differs)
		}
	}
	run, err := runfolder.Read(folder)
	if err != nil || len(run.Episodes) != 5 || len(run.Tables) != 3 {
		t.Errorf("%+v, %+v, %v", run.Episodes, run.Tables, err)
	}
}

// interrupting is a launcher that ends the context at the second cluster.
type interrupting struct {
	testbed.Launcher
	left int
	end  context.CancelFunc
}

func (i *interrupting) Launch(ctx context.Context, n testbed.Nodes, folder, log string) (testbed.Cluster, error) {
	if i.left--; i.left < 0 {
		i.end()
	}
	return i.Launcher.Launch(ctx, n, folder, log)
}

// After Ctrl-C in the second live profile, what was played before is printed.
func TestLiveInterrupted(t *testing.T) {
	logging.DropKlog()
	dir := forced(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	code, out, errs := executeLive(ctx, &interrupting{Launcher: inprocess.Launcher{}, left: 1, end: cancel}, "--speed", "8", dir)
	if code != exit.Interrupted {
		t.Errorf("code %d: %s", code, errs)
	}
	for _, want := range []string{"How far live is from simulated, at speed 8\n  default-scheduler: wait ",
		"  most-allocated: not played live to the end\nThey may differ because\n", "│ default-scheduler (live) │", "│ most-allocated │"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}
