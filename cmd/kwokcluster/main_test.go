package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	ucli "github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"

	"gnnsched/internal/cli"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/kwok"
	"gnnsched/kwok/nodepool"
	"gnnsched/workload/record"
	"gnnsched/workload/trace/openb"
)

// envMain makes the test binary run kwokcluster's main function. up --detach starts its own
// executable again, which is the test binary here.
const envMain = "KWOKCLUSTER_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(envMain) != "" {
		main()
	}
	playRole()
	os.Exit(m.Run())
}

// runApp runs kwokcluster in this process.
func runApp(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	args = append([]string{"kwokcluster"}, args...)
	var out, errs bytes.Buffer
	a := app(args)
	a.Writer, a.ErrWriter = &out, &errs
	code = cli.RunContext(context.Background(), a, args)
	return code, out.String(), errs.String()
}

// runProcess runs kwokcluster in a new process.
func runProcess(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), envMain+"=1")
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), out.String(), errs.String()
}

// The program has a manual page with the flags of its commands.
func TestManual(t *testing.T) {
	code, page, errs := runApp(t, "man")
	if code != exit.OK {
		t.Fatalf("code %d: %s", code, errs)
	}
	for _, want := range []string{".TH kwokcluster 8", "pools", "purge", "output"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestWrongUseIsReported(t *testing.T) {
	taken := fatal.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close() //nolint:errcheck // the test is over
	tmp := t.TempDir()
	file := filepath.Join(tmp, "file")
	pools := filepath.Join(tmp, "pools.yaml")
	for path, text := range map[string]string{file: "x", pools: "pools:\n- name: a\n  cout: 1\n"} {
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
	}
	fresh := filepath.Join(tmp, "cluster")
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	for _, c := range []struct {
		name string
		args []string
		want string // on stderr
	}{
		{"unknown command", []string{"start"}, `there is no command "start"`},
		{"misspelt command", []string{"stauts"}, "did you mean `kwokcluster status`?"},
		{"misspelt flag", []string{"up", "--detahc"}, "did you mean --detach?"},
		{"unknown flag", []string{"up", "--node", "3"}, "-node"},
		{"argument", []string{"up", "now"}, `takes no arguments, got "now"`},
		{"argument of down", []string{"down", "now"}, `takes no arguments, got "now"`},
		{"number", []string{"up", "--nodes", "many"}, "many"},
		{"negative", []string{"up", "--dir", fresh, "--nodes", "-1"}, "--nodes -1 is not between"},
		{"nodes and pools", []string{"up", "--nodes", "1", "--pools", pools}, "exclude each other"},
		{"way to offer GPUs", []string{"up", "--nodes-file", pools, "--gpus", "claims"},
			`--gpus: no way is called "claims"; there are capacity, slices, both, turns`},
		{"GPUs of pools", []string{"up", "--pools", pools, "--gpus", "slices"}, "--gpus works with --nodes-file only"},
		{"no pool file", []string{"up", "--pools", filepath.Join(tmp, "none.yaml")}, "none.yaml: no such file"},
		{"malformed pool file", []string{"up", "--pools", pools}, "pools.yaml:3: pools[0].cout: unknown field"},
		{"port in use", []string{"up", "--dir", fresh, "--port", port}, "hint: choose another port with --port"},
		{"port in use, detached", []string{"up", "--dir", fresh, "--port", "99999", "--detach"}, "99999"},
		{"open to the network", []string{"up", "--dir", fresh, "--bind-address", "0.0.0.0"}, "add --advertise-host"},
		{"directory below a file", []string{"up", "--dir", filepath.Join(file, "x")}, "hint: choose a directory that you can write to"},
		{"log below a file", []string{"up", "--dir", fresh, "--log-dir", filepath.Join(file, "x")},
			"choose a place that you can write to with --log-dir"},
		{"kubeconfig below a file", []string{"up", "--dir", fresh, "--detach", "--kubeconfig-out", filepath.Join(file, "x", "y")},
			"choose a place that you can write to with --kubeconfig-out"},
		{"somebody else's directory", []string{"up", "--dir", tmp}, "was not made by kwokcluster"},
		{"log level", []string{"up", "--dir", fresh, "--log-level", "loud"}, `"loud"`},
		{"purge of somebody else's directory", []string{"down", "--purge", "--dir", tmp}, "was not made by kwokcluster"},
		{"timeout", []string{"down", "--timeout", "0s"}, "--timeout 0s"},
		{"output format", []string{"status", "-o", "yaml"}, `no format is called "yaml"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := runApp(t, c.args...)
			if code != exit.Usage || !strings.Contains(stderr, c.want) {
				t.Errorf("code %d, stderr %q; want code 2 and %q", code, stderr, c.want)
			}
			if strings.Contains(stdout, "export") {
				t.Errorf("stdout %q", stdout)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	if code, stdout, _ := runApp(t, "--version"); code != exit.OK || !strings.Contains(stdout, ", Kubernetes v") {
		t.Errorf("code %d, %q", code, stdout)
	}
}

func TestWithoutACluster(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	code, stdout, stderr := runApp(t, "status", "--dir", dir, "-o", "json")
	var s kwok.State
	if err := json.Unmarshal([]byte(stdout), &s); err != nil || s.Phase != kwok.Absent {
		t.Errorf("state %q, %v", stdout, err)
	}
	if code != exit.Unreachable || !strings.Contains(stderr, "kwokcluster up") {
		t.Errorf("status: code %d, %q", code, stderr)
	}
	for _, args := range [][]string{{"down", "--dir", dir}, {"down", "--purge", "--dir", dir}} {
		if code, _, stderr := runApp(t, args...); code != exit.OK || !strings.Contains(stderr, "no cluster is running in "+dir) ||
			strings.Contains(stderr, "deleted") {
			t.Errorf("%v: code %d, %q", args, code, stderr)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("looking made the directory")
	}
}

func TestPrintState(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	ready := kwok.State{
		Phase: kwok.Ready, Dir: "/data/kwok", PID: 4711, Address: "https://127.0.0.1:36519", Kubeconfig: "/data/kwok/kubeconfig",
		Version: "v1.36.3", Nodes: kwok.NodeCount{Ready: 10, Total: 11}, CreatedAt: now.Add(-50 * time.Hour),
		StartedAt: now.Add(-90 * time.Second),
	}
	stopped := kwok.State{Phase: kwok.Stopped, Dir: "/data/kwok", Kubeconfig: "/data/kwok/kubeconfig", CreatedAt: now.Add(-50 * time.Hour)}
	var b bytes.Buffer
	for _, s := range []kwok.State{ready, stopped} {
		fatal.If(t, printState(&b, s, now))
		b.WriteString("\n")
	}
	fatal.Golden(t, "status.golden", b.String())
}

func TestNotReady(t *testing.T) {
	for phase, code := range map[kwok.Phase]int{
		kwok.Ready: exit.OK, kwok.Starting: exit.Unreachable, kwok.Stopped: exit.Unreachable, kwok.Absent: exit.Unreachable,
		kwok.Unhealthy: exit.Unreachable,
	} {
		if got := exit.Code(notReady(kwok.State{Phase: phase})); got != code {
			t.Errorf("%s: code %d, want %d", phase, got, code)
		}
	}
}

func TestReadyMessage(t *testing.T) {
	var out, errs bytes.Buffer
	m := readyMessage{URL: "https://h:1", Kubeconfig: "/a b/kubeconfig", Context: "c", Nodes: 11, Took: 3600 * time.Millisecond}
	m.print(ucli.NewContext(&ucli.App{Writer: &out, ErrWriter: &errs}, nil, nil), "next")
	if out.String() != "export KUBECONFIG='/a b/kubeconfig'\n" ||
		!strings.HasPrefix(errs.String(), "kwokcluster: ready after 3.6 s: https://h:1, 11 nodes\n") {
		t.Errorf("stdout %q, stderr %q", &out, &errs)
	}
}

func TestEndWithin(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ended := make(chan struct{})
	defer endWithin(ctx, time.Millisecond, func() { close(ended) })()
	<-ended
	never := func() { t.Error("ended although it was stopped in time") }
	endWithin(context.Background(), time.Nanosecond, never)()
	endWithin(ctx, time.Hour, never)()
}

// TestDetached starts, inspects and purges a cluster in the background, in real processes.
func TestDetached(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	t.Cleanup(func() { runProcess(t, "down", "--dir", dir) })
	logs, copies := filepath.Join(t.TempDir(), "logs"), filepath.Join(t.TempDir(), "copies")
	code, stdout, stderr := runProcess(t, "up", "--dir", dir, "--nodes", "3", "--detach", "--log-dir", logs, "--kubeconfig-out",
		filepath.Join(copies, "a"), "--kubeconfig-out", filepath.Join(copies, "b"))
	if code != exit.OK || stdout != "export KUBECONFIG="+exit.ShellLine(filepath.Join(dir, "kubeconfig"))+
		"\n" || !strings.Contains(stderr, "4 nodes") ||
		!strings.Contains(stderr, "`kwokcluster down --dir "+exit.ShellLine(dir)+"` stops it") ||
		!strings.Contains(stderr, "context gnnsched-kwok-cluster-") {
		t.Fatalf("up: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	for made, flag := range map[string]string{logs: "--log-dir", copies: "--kubeconfig-out"} {
		if strings.Count(stderr, "made the directory "+made+"; choose another with "+flag+"\n") != 1 {
			t.Errorf("up does not say once that it made %s: %s", made, stderr)
		}
	}
	code, stdout, stderr = runProcess(t, "status", "--dir", dir, "-o", "json")
	var s kwok.State
	if err := json.Unmarshal([]byte(stdout), &s); err != nil || code != exit.OK {
		t.Fatalf("status: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if s.Phase != kwok.Ready || s.Nodes != (kwok.NodeCount{Ready: 4, Total: 4}) {
		t.Errorf("state %+v", s)
	}
	for _, extra := range [][]string{nil, {"--detach"}} {
		code, stdout, stderr = runProcess(t, append([]string{"up", "--dir", dir}, extra...)...)
		if want := strings.Repeat("export KUBECONFIG="+s.Kubeconfig+"\n", len(extra)); stdout != want {
			t.Errorf("up again %v prints %q, want %q", extra, stdout, want)
		}
		if code != exit.Usage || !strings.Contains(stderr, "already running: process "+strconv.Itoa(s.PID)) ||
			!strings.Contains(stderr, "down --dir "+dir) {
			t.Errorf("up again %v: code %d, stderr %q", extra, code, stderr)
		}
	}
	if code, _, stderr = runProcess(t, "down", "--purge", "--dir", dir); code != exit.OK || !strings.Contains(stderr, "deleted "+dir) {
		t.Errorf("down: code %d, stderr %q", code, stderr)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
}

// The nodes of a cluster made from a node list are valid and sort by name in the list's order.
func TestNodeListKeepsItsOrder(t *testing.T) {
	list := fatal.Value(openb.LoadNodes(fatal.OpenBFile(t, "openb_node_list_gpu_node.csv")))(t)
	pools := nodepool.Single(openb.ClusterNodes(openb.Sample(list, 200)), nodepool.InCapacity)
	fatal.If(t, nodepool.Validate(pools))
	names := each.Map(pools, func(p nodepool.Pool) string { return p.NodeName(0) })
	if len(names) < 200 || len(names) > 210 || !slices.IsSorted(names) {
		t.Errorf("%d nodes, sorted by name: %v", len(names), slices.IsSorted(names))
	}
}

// The nodes of a record become pools of one node, with everything that the scheduler reads of them.
func TestPoolsOfARecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "prod.record")
	w := fatal.Value(record.Create(dir, record.Options{}))(t)
	w.Node(record.Node{Name: "gpu.example", From: 1000, MilliCPU: 96_000, Memory: 1 << 40, Pods: 250, GPU: 8, GPUModel: "A100",
		Labels: `{"kubernetes.io/hostname":"gpu.example","kubernetes.io/arch":"arm64","topology.kubernetes.io/zone":"b"}`,
		Taints: `[{"key":"nvidia.com/gpu","value":"present","effect":"NoSchedule"}]`, Extended: `{"example.com/fpga":"2"}`})
	fatal.Value(w.Close())(t)
	set := flag.NewFlagSet("up", flag.ContinueOnError)
	set.String("pools", dir, "")
	got, err := pools(ucli.NewContext(app(nil), set, nil))
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	p := got[0]
	fpgas := p.Capacity["example.com/fpga"]
	if p.Name != "gpu-example" || p.Capacity.Cpu().String() != "96" || fpgas.Value() != 2 || kube.AmountsIn(p.Capacity).GPUCount != 8 &&
		kube.AmountsIn(p.Capacity).GPU != 8 {
		t.Errorf("pool %+v", p)
	}
	if p.Labels["kubernetes.io/arch"] != "arm64" || p.Labels["topology.kubernetes.io/zone"] != "b" ||
		p.Labels["kubernetes.io/hostname"] != "" || p.Labels[kube.GPUModelLabel] != "A100" {
		t.Errorf("labels %v", p.Labels)
	}
	if len(p.Taints) != 1 || p.Taints[0] != (corev1.Taint{Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoSchedule}) {
		t.Errorf("taints %v", p.Taints)
	}
}

// The reference has the flags as the commands have them.
func TestFlagsPage(t *testing.T) {
	page := fatal.Value(cli.Reference(app(nil)))(t)
	fatal.Golden(t, "../../../docs/reference/flags-kwokcluster.md", page)
}

// roles are the behaviours of the test binary. Start passes the name of one as the argument.
var roles = map[string]func(*Parent){
	"ready": func(p *Parent) {
		p.Progress("one")
		p.Progress("two")
		if err := p.Ready(map[string]int{"pid": os.Getpid()}); err != nil {
			panic(err)
		}
		p.Failed(errors.New("later")) // no report any more
		waitForSignal()
	},
	"failed": func(p *Parent) {
		p.Failed(exit.New(exit.Unreachable, errors.New("no answer"), "try again"))
		os.Exit(exit.Unreachable)
	},
	"silent": func(*Parent) {
		fmt.Println("last words")
		os.Exit(7)
	},
	"waiting": func(p *Parent) {
		p.Progress("waiting")
		waitForSignal()
	},
}

func waitForSignal() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	select {
	case <-c:
	case <-time.After(time.Minute): // should the test be killed
	}
	os.Exit(0)
}

// playRole plays the role in the arguments of a process that Start began; otherwise it returns.
func playRole() {
	parent, err := ParentFromEnv()
	if err != nil {
		panic(err)
	}
	if parent != nil {
		roles[os.Args[1]](parent)
		os.Exit(0)
	}
}

// start starts a role and returns its reports, its output and the error.
func start(t *testing.T, ctx context.Context, role string, progress func(string)) (reports []string, output string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "output")
	f, err := os.Create(path)
	fatal.If(t, err)
	defer f.Close()
	err = Start(ctx, Command{
		Args: []string{role}, Output: f,
		Progress: func(step string) {
			reports = append(reports, step)
			progress(step)
		},
		Ready: func(message []byte) error {
			reports = append(reports, string(message))
			return nil
		},
	})
	b, readErr := os.ReadFile(path)
	if readErr != nil {
		t.Fatal(readErr)
	}
	return reports, string(b), err
}

// A process that is ready lives on after Start, in a session of its own.
func TestReady(t *testing.T) {
	reports, _, err := start(t, context.Background(), "ready", func(string) {})
	if err != nil || len(reports) != 3 || !slices.Equal(reports[:2], []string{"one", "two"}) {
		t.Fatalf("reports %q, error %v", reports, err)
	}
	var message struct{ PID int }
	fatal.If(t, json.Unmarshal([]byte(reports[2]), &message))
	group, err := syscall.Getpgid(message.PID)
	if err != nil || group != message.PID {
		t.Errorf("the process is in group %d: %v", group, err)
	}
	if err := syscall.Kill(message.PID, syscall.SIGTERM); err != nil {
		t.Errorf("the process has ended: %v", err)
	}
}

// An error of the start keeps its exit code and hint.
func TestFailed(t *testing.T) {
	_, _, err := start(t, context.Background(), "failed", func(string) {})
	var e *exit.Error
	if !errors.As(err, &e) || e.Code != exit.Unreachable || e.Error() != "no answer" || e.Hint != "try again" {
		t.Errorf("%#v", err)
	}
}

func TestEnded(t *testing.T) {
	_, output, err := start(t, context.Background(), "silent", func(string) {})
	if !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "exit status 7") || output != "last words\n" {
		t.Errorf("%v, output %q", err, output)
	}
}

// When the context ends, the process has ended too.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	if _, _, err := start(t, ctx, "waiting", func(string) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestFollow(t *testing.T) {
	for in, want := range map[string]string{
		"{\"progress\":\"a\"}\n{\"ready\":{\"n\":1}}\n{\"progress\":\"b\"}": `[a {"n":1}] <nil>`,
		`{"failed":{"code":2,"error":"port taken","hint":"another"}}`:       "[] port taken",
		`{"progress":"a"}`: "[a] unexpected EOF",
		"panic: no":        "[] read the report of the process in the background: invalid character 'p' looking for beginning of value",
	} {
		var got []string
		c := Command{
			Progress: func(step string) { got = append(got, step) },
			Ready:    func(b []byte) error { got = append(got, string(b)); return nil },
		}
		err := c.follow(strings.NewReader(in))
		if s := fmt.Sprintf("%v %v", got, err); s != want {
			t.Errorf("%q: %s, want %s", in, s, want)
		}
	}
}

func TestParentFromEnv(t *testing.T) {
	if p, err := ParentFromEnv(); p != nil || err != nil {
		t.Errorf("%v, %v", p, err)
	}
	for _, bad := range []string{"x", "2"} {
		t.Setenv(envReport, bad)
		if _, err := ParentFromEnv(); exit.Code(err) != exit.Usage {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
