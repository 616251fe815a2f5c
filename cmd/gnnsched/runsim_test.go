package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"gnnsched/internal/cli"
	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/workload"
	"gnnsched/workload/cleanup"
	"gnnsched/workload/driver"
	"gnnsched/workload/driver/fakecluster"
	"gnnsched/workload/trace"
)

const nobodyListens = `apiVersion: v1
kind: Config
current-context: sim
clusters: [{name: sim, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: admin, user: {token: x}}]
contexts: [{name: sim, context: {cluster: sim, user: admin}}]
`

// withoutCluster makes sure that a command finds no cluster: home and working directory are empty, and
// no variable names a kubeconfig.
func withoutCluster(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_DATA_HOME", dir)
	t.Setenv("KUBECONFIG", "")
	t.Chdir(dir)
}

func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	fatal.If(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// command executes a command line and returns its exit code and output.
func command(name string, args ...string) (code int, stdout, stderr string) {
	a := app(name)
	var out, errs bytes.Buffer
	a.Writer, a.ErrWriter, a.Reader = &out, &errs, strings.NewReader("")
	code = cli.RunContext(context.Background(), a, append([]string{name}, args...))
	return code, out.String(), errs.String()
}

func TestRunsimBadInput(t *testing.T) {
	withoutCluster(t)
	shapes := file(t, "shapes.yaml", "shapes: [{name: a, requests: {cpu: much}}]")
	plan := file(t, "plan.csv", "a,2,1,1,1Gi,1Gi,add\na,2,1,1,1Gi,1Gi,scale\n")
	good := file(t, "good.csv", "a,2,1,1,1Gi,1Gi,add\n")
	fatal.If(t, os.Link(good, filepath.Join(filepath.Dir(good), "runsim-x.csv")))
	bad := filepath.Join(t.TempDir(), "bad.record")
	fatal.If(t, os.Mkdir(bad, 0o755))
	fatal.If(t, os.WriteFile(filepath.Join(bad, "pods-000001.parquet"), []byte("no Parquet"), 0o600))
	dead := file(t, "kubeconfig", nobodyListens)
	trace := file(t, "trace.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,500,1024,1,250\n")
	badTrace := file(t, "bad-trace.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,500,1024,2,250\n")
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"unknown flag", []string{"--load", "1"}, exit.Usage, "flag provided but not defined: -load"},
		{"value", []string{"--cpu-load", "much"}, exit.Usage, `invalid value "much"`},
		{"percent", []string{"--cpu_load", "20"}, exit.Usage, "cpu-load 20 must be a fraction"},
		{"resets", []string{"--cluster_resets", "0"}, exit.Usage, "cluster-resets 0"},
		{"replicas", []string{"--replicas-min", "20"}, exit.Usage, "replicas 20 to 15"},
		{"argument", []string{"now"}, exit.Usage, `unexpected argument "now"`},
		{"output", []string{"-o", "xml"}, exit.Usage, `no format is called "xml"`},
		{"no shapes file", []string{"--shapes", "nowhere.yaml"}, exit.Usage, "nowhere.yaml"},
		{"bad shapes", []string{"--shapes", shapes}, exit.Usage, "shapes.yaml: shapes[0].requests.cpu:"},
		{"no replay file", []string{"--replay", "nowhere.csv"}, exit.Usage, "nowhere.csv"},
		{"replay of a bad record", []string{"--replay", bad}, exit.Usage, "bad.record"},
		{"replay of a record with a seed", []string{"--replay", bad, "--seed", "1"}, exit.Usage, "--seed has no effect with --replay"},
		{"replay of a record without time", []string{"--replay", bad, "--speed", "0"}, exit.Usage, "--speed 0"},
		{"record as a trace", []string{"--trace", bad}, exit.Usage, "is a record, not a trace"},
		{"bad replay", []string{"--replay", plan}, exit.Usage, `plan.csv:2:17: action: "scale" is not an action`},
		{"replay and seed", []string{"--replay", good, "--seed", "1"}, exit.Usage, "--seed has no effect with --replay"},
		{"replay onto itself", []string{"--replay", good, "--csv", good}, exit.Usage, "--replay and --csv name the same file"},
		{"replay onto its own default", []string{"--replay", filepath.Join(filepath.Dir(good), "runsim-x.csv"), "--run", "x", "--log-dir",
			filepath.Dir(good)}, exit.Usage, "--replay and --csv name the same file"},
		{"no trace", []string{"--trace", "nowhere.csv"}, exit.Usage, "nowhere.csv"},
		{"bad trace", []string{"--trace", badTrace}, exit.Usage, "bad-trace.csv:2:14: gpu_milli: 250 with a num_gpu of 2"},
		{"trace and replay", []string{"--trace", trace, "--replay", good}, exit.Usage, "--replay has no effect with --trace"},
		{"trace and load", []string{"--trace", trace, "--cpu-load", "1"}, exit.Usage, "--cpu-load has no effect with --trace"},
		{"trace and seed", []string{"--trace", trace, "--seed", "1"}, exit.Usage, "--seed has no effect with --trace"},
		{"trace onto itself", []string{"--trace", trace, "--csv", trace}, exit.Usage, "--trace and --csv name the same file"},
		{"speed", []string{"--trace", trace, "--speed", "0"}, exit.Usage, "--speed 0"},
		{"limit", []string{"--trace", trace, "--limit", "-1"}, exit.Usage, "--limit -1"},
		{"no trace to limit", []string{"--limit", "3"}, exit.Usage, "--limit works with --trace only"},
		{"trace, no cluster", []string{"--trace", trace}, exit.Kubeconfig, "kwokcluster up"},
		{"no cluster", nil, exit.Kubeconfig, "kwokcluster up"},
		{"no such context", []string{"--kubeconfig", dead, "--context", "other"}, exit.Kubeconfig, "other"},
		{"nobody listens", []string{"--kubeconfig", dead}, exit.Unreachable, "127.0.0.1:1"},
		{"log level", []string{"--log-level", "loud"}, exit.Usage, `no log level is called "loud"; there are debug`},
	} {
		code, stdout, stderr := command("runsim", c.args...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: code %d, want %d; stderr %q lacks %q", c.name, code, c.code, stderr, c.want)
		}
		if stdout != "" && !strings.Contains(c.name, "flag") && c.name != "value" { // urfave prints the help
			t.Errorf("%s: stdout %q", c.name, stdout)
		}
	}
	if b, _ := os.ReadFile(good); string(b) != "a,2,1,1,1Gi,1Gi,add\n" {
		t.Errorf("the replayed file is now %q", b)
	}
}

// A dry run of a plan file needs no cluster. It checks and normalises the file.
func TestReplayDryRunNeedsNoCluster(t *testing.T) {
	withoutCluster(t)
	code, stdout, stderr := command("runsim", "--dry_run", "--replay",
		file(t, "p.csv", "a,2,1000m,,2.0Gi,2Gi,create\n,,,,,,reset\nb,3,0.1,,128Mi,,add\n"))
	want := "name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit,action\na,2,1,,2Gi,2Gi,add\n,,,,,,reset\nb,3,100m,,128Mi,,add\n"
	if code != 0 || stdout != want {
		t.Errorf("code %d, stdout:\n%s", code, cmp.Diff(want, stdout))
	}
	if !strings.Contains(stderr, "fill 1: 1 deployments, 2 pods") || !strings.Contains(stderr, "fill 2: 1 deployments, 3 pods") {
		t.Errorf("stderr %q", stderr)
	}
}

func TestHelpIsUnderBothNames(t *testing.T) {
	for _, args := range [][]string{{"runsim", "--help"}, {"gnnsched", "runsim", "--help"}} {
		code, stdout, _ := command(args[0], args[1:]...)
		for _, want := range []string{"--cpu-load", "--replay", "runsim --dry-run > plan.csv", "default: 0.2"} {
			if code != 0 || !strings.Contains(stdout, want) {
				t.Errorf("%v: code %d, the help lacks %q", args, code, want)
			}
		}
	}
}

// fakeSimulation is a runsim of two fills on a fake cluster.
func fakeSimulation(t *testing.T, c *fakecluster.Cluster) (s *simulation, out *bytes.Buffer) {
	t.Helper()
	shape := workload.Shape{Name: "web", Weight: 1, Requests: cluster.Resources{MilliCPU: 500, Memory: 1 << 30, Pods: 1}}
	add := func(name string, n int) workload.Step {
		return workload.Step{Action: workload.Add, Deployment: workload.Deployment{Name: name, Replicas: n, Shape: shape}}
	}
	seed := uint64(7)
	out = &bytes.Buffer{}
	return &simulation{
		approval: approval{yes: true, host: "https://prod", in: strings.NewReader(""), question: &bytes.Buffer{}}, seed: &seed,
		csv: filepath.Join(t.TempDir(), "new", "run.csv"), format: "table", out: out, err: &bytes.Buffer{}, log: zerolog.Nop(),
		config: driver.Config{
			Client: c.Client, Cleaner: &cleanup.Client{Metadata: c.Metadata, Kinds: c, Clock: clock.RealClock{}},
			Plan:          workload.Plan{Steps: []workload.Step{add("a", 2), {Action: workload.Reset}, add("b", 3)}},
			SchedulerName: "gnn", RunID: "r", Settle: 100 * time.Millisecond,
		},
	}, out
}

func TestSimulationWritesSummaryAndReplayableCSV(t *testing.T) {
	c := fakecluster.New()
	s, out := fakeSimulation(t, c)
	fatal.If(t, s.run(context.Background()))
	for _, want := range []string{"Run r: 2 fill(s) for scheduler gnn in namespace gnnsched-sim, seed 7", "FILL  DEPLOYMENTS",
		"all   2            5", "deployed workload: " + s.csv} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, out)
		}
	}
	f := fatal.Value(os.Open(s.csv))(t)
	defer f.Close()
	got, err := trace.ReadPlan(f, s.csv)
	if err != nil || len(got.Steps) != 3 || got.Steps[1].Action != workload.Reset || got.Steps[2].Deployment.Replicas != 3 {
		t.Errorf("the CSV replays as %+v, %v", got.Steps, err)
	}
}

func TestSimulationJSON(t *testing.T) {
	c := fakecluster.New()
	c.Slots, c.Reason = 2, "0/1 nodes are available"
	s, out := fakeSimulation(t, c)
	s.format = "json"
	fatal.If(t, s.run(context.Background()))
	var got struct {
		Run   string
		Seed  uint64
		CSV   string
		Fills []struct {
			Bound, Pending int
			Reasons        []driver.Reason
		}
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if got.Run != "r" || got.Seed != 7 || got.CSV != s.csv || len(got.Fills) != 2 || got.Fills[1].Bound != 2 || got.Fills[1].Pending != 1 ||
		got.Fills[1].Reasons[0].Message != c.Reason {
		t.Errorf("got %+v", got)
	}
}

// Pending pods are reported with their reason. They are not a failure.
func TestSimulationReportsPending(t *testing.T) {
	c := fakecluster.New()
	c.Slots = 0
	s, out := fakeSimulation(t, c)
	fatal.If(t, s.run(context.Background()))
	if want := "pending in fill 2: 3 pod(s): scheduler gnn has not looked at them; is it running?"; !strings.Contains(out.String(), want) {
		t.Errorf("the summary lacks %q:\n%s", want, out)
	}
}

// After Ctrl-C, the CSV and the summary hold what was deployed.
func TestSimulationInterrupted(t *testing.T) {
	c := fakecluster.New()
	s, out := fakeSimulation(t, c)
	s.config.Interval = time.Hour
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(300*time.Millisecond, cancel)
	if err := s.run(ctx); !errors.Is(err, context.Canceled) || exit.Code(err) != exit.Interrupted {
		t.Errorf("got %v", err)
	}
	b, err := os.ReadFile(s.csv)
	if err != nil || !strings.HasSuffix(string(b), "\na,2,500m,,1Gi,,add\n") || !strings.Contains(out.String(), "1     1            2") {
		t.Errorf("CSV %q, %v; summary:\n%s", b, err, out)
	}
}

func TestSimulationRefusesAnUnwritableCSV(t *testing.T) {
	c := fakecluster.New()
	s, _ := fakeSimulation(t, c)
	s.csv, s.csvNamed = filepath.Join(file(t, "a-file", ""), "run.csv"), true
	if err := s.run(context.Background()); exit.Code(err) != exit.Usage {
		t.Errorf("got %v", err)
	}
	if n, _ := c.Client.AppsV1().Deployments("").List(context.Background(), metav1.ListOptions{}); len(n.Items) > 0 {
		t.Error("it deployed all the same")
	}
}

// If the default CSV file cannot be written, the run goes on without it.
func TestSimulationWithoutPlaceForCSV(t *testing.T) {
	c := fakecluster.New()
	s, out := fakeSimulation(t, c)
	s.csv = filepath.Join(file(t, "a-file", ""), "run.csv")
	fatal.If(t, s.run(context.Background()))
	if n, _ := c.Client.AppsV1().Deployments("").List(context.Background(), metav1.ListOptions{}); len(n.Items) == 0 ||
		strings.Contains(out.String(), "run.csv") {
		t.Errorf("%d deployments; summary:\n%s", len(n.Items), out)
	}
}

// A dry run of a trace lists pods that come and go.
func TestTraceDryRun(t *testing.T) {
	withoutCluster(t)
	list := file(t, "pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n"+
		"b,500,1024,1,250,9,12\na,500,1024,1,1000,4,10\nc,500,1024,0,0,5,20\n")
	code, stdout, stderr := command("runsim", "--trace", list, "--dry-run", "--limit", "2")
	want := "name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit,action\na,1,500m,,1Gi,,add\nc,1,500m,,1Gi,,add\na,1,500m,,1Gi,,delete\nc,1,500m,,1Gi,,delete\n"
	if code != 0 || stdout != want || stderr != "fill 1: 2 pods\n" {
		t.Errorf("code %d, stderr %q, stdout:\n%s", code, stderr, cmp.Diff(want, stdout))
	}
}

// runsim deploys to a cluster that is not simulated only after approval.
func TestRunsimAsksOnOthers(t *testing.T) {
	for _, c := range []struct {
		name        string
		node        runtime.Object
		yes         bool
		interactive bool
		answer      string
		code        int
		pods        int
		want        string // in the error
	}{
		{"simulated", node("n", true), false, false, "", exit.OK, 3, ""},
		{"yes", node("n", false), false, true, "y\n", exit.OK, 3, ""},
		{"enter", node("n", false), false, true, "\n", exit.Declined, 0, "nothing was changed"},
		{"nobody there", node("n", false), false, false, "y\n", exit.Usage, 0,
			"the cluster at https://prod is not simulated: 1 of its 1 nodes are real"},
		{"--yes", node("n", false), true, false, "", exit.OK, 3, ""},
	} {
		fake := fakecluster.New(c.node)
		s, _ := fakeSimulation(t, fake)
		question := &bytes.Buffer{}
		s.approval = approval{host: "https://prod", yes: c.yes, interactive: c.interactive, in: strings.NewReader(c.answer), question: question}
		err := s.run(context.Background())
		if exit.Code(err) != c.code || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want code %d", c.name, err, c.code)
		}
		pods, err := fake.Client.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{})
		if err != nil || len(pods.Items) != c.pods || s.config.Simulated != (c.name == "simulated") {
			t.Errorf("%s: %d pods, simulated %v, %v", c.name, len(pods.Items), s.config.Simulated, err)
		}
		if asked := strings.Contains(question.String(),
			"Deploy 5 pods in 2 fills to it? The pods will really run. [y/N]"); asked != c.interactive {
			t.Errorf("%s: asked %q", c.name, question)
		}
		if _, err := os.Stat(s.csv); (err == nil) != (c.pods > 0) {
			t.Errorf("%s: the CSV: %v", c.name, err)
		}
	}
}

// Without a simulated cluster, commands report that they use another one.
func TestFallbackIsAnnounced(t *testing.T) {
	withoutCluster(t)
	before := clientcmd.RecommendedHomeFile // client-go reads HOME only at its start
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = before })
	clientcmd.RecommendedHomeFile = file(t, "config", nobodyListens)
	const want = "no simulated cluster"
	for _, args := range [][]string{{"runsim"}, {"cleancluster"}, {"ktop", "--once"}, {"rungnn", "--print-config"}} {
		if _, _, stderr := command(args[0], args[1:]...); !strings.Contains(stderr, want) ||
			!strings.Contains(stderr, "using context sim of ~/.kube/config") {
			t.Errorf("%v: stderr %q", args, stderr)
		}
	}
	for _, args := range [][]string{{"--context", "sim"}, {"--kubeconfig", file(t, "k", nobodyListens)}} {
		if _, _, stderr := command("runsim", args...); strings.Contains(stderr, want) {
			t.Errorf("%v: stderr %q", args, stderr)
		}
	}
}

// Without a cluster, a dry run plans for the nodes that kwokcluster up makes.
func TestDryRunNeedsNoCluster(t *testing.T) {
	withoutCluster(t)
	code, stdout, stderr := command("runsim", "--dry-run", "--cluster-resets", "1")
	if code != exit.OK || strings.Count(stdout, ",add\n") < 5 ||
		!strings.Contains(stderr, "no cluster is there; this plan is for the nodes of `kwokcluster up`") ||
		!strings.Contains(stderr, "pods 20% of the cluster with what is there, ended by --pod-load") {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	// A load that is given is the only one that counts.
	_, _, stderr = command("runsim", "--dry-run", "--cluster-resets", "1", "--cpu-load", "0.5")
	if !strings.Contains(stderr, "cpu 50% mem 32% pods 54%") || !strings.Contains(stderr, "ended by --cpu-load") {
		t.Errorf("stderr %q", stderr)
	}
	code, _, stderr = command("runsim", "--dry-run", "--kubeconfig", file(t, "kubeconfig", nobodyListens))
	if code != exit.Unreachable || !strings.Contains(stderr, "127.0.0.1:1") {
		t.Errorf("a cluster that was named and does not answer: code %d, stderr %q", code, stderr)
	}
}

// Without a log directory, runsim makes none for its CSV.
func TestNoLogDirectoryNoCSV(t *testing.T) {
	for _, dir := range []string{"", "here"} {
		flags := flag.NewFlagSet("runsim", flag.ContinueOnError)
		flags.String("log-dir", dir, "")
		want := ""
		if dir != "" {
			want = filepath.Join("here", "runsim-x.csv")
		}
		if got := csvPath(ucli.NewContext(nil, flags, nil), "x"); got != want {
			t.Errorf("--log-dir %q: %q, want %q", dir, got, want)
		}
	}
}
