package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/learn"
	"gnnsched/scheduler/plugin/userconfig"
	"gnnsched/scheduler/server"
)

// run executes a command line as main does and returns its exit code and output.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := app(args[0])
	a.Writer, a.ErrWriter = &out, &errs
	code = cli.RunContext(context.Background(), a, args)
	return code, out.String(), errs.String()
}

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	fatal.If(t, os.WriteFile(p, content, 0o600))
	return p
}

func kubeconfigFor(t *testing.T, server string) string {
	return write(t, "kubeconfig", []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"c","cluster":{"server":"`+server+`"}}],"users":[{"name":"c","user":{"token":"t"}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}]}`))
}

// answering is an API server that is ready and answers nothing else.
func answering(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }))
	t.Cleanup(s.Close)
	return s.URL
}

// Bad input gives the documented exit code, an error that names it and, where possible, a hint.
// Nothing is written to stdout, where a script could take it for data.
func TestBadInput(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Chdir(t.TempDir())

	c := checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8}, rand.New(rand.NewPCG(1, 2)))
	for _, w := range c.Weights { // each is a number, and no score is
		for i := range w.Data {
			w.Data[i] = math.MaxFloat32
		}
	}
	var large bytes.Buffer
	fatal.If(t, c.Write(&large))
	absurd := write(t, "absurd.safetensors", large.Bytes())
	l := fatal.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	dead, alive := kubeconfigFor(t, "https://127.0.0.1:1"), kubeconfigFor(t, answering(t))
	notADir := write(t, "file", nil)
	const scenario = "name: traced\nabout: a trace\nobjective: balance\nnodes: 3\nsizes: [{weight: 1, allocatable: {cpu: 4, memory: 8Gi, " +
		"pods: 110}}]\ntrace: {file: %s}\n"
	traced := write(t, "traced.yaml", fmt.Appendf(nil, scenario, "none.csv"))
	malformed := write(t, "malformed.yaml", fmt.Appendf(nil, scenario, write(t, "jobs.csv", []byte("id,cores\na,1\n"))))
	pipe := filepath.Join(t.TempDir(), "pipe")
	fatal.If(t, syscall.Mkfifo(pipe, 0o600))

	for _, c := range []struct {
		name string
		args []string
		code int
		say  string // in stderr
	}{
		{"no cluster", []string{"rungnn"}, exit.Kubeconfig, "kwokcluster up"},
		{"cluster does not answer", []string{"rungnn", "--kubeconfig", dead}, exit.Unreachable, "does not answer"},
		{"wrong context", []string{"ktop", "--once", "--kubeconfig", dead, "--context", "other"}, exit.Kubeconfig, "other"},
		{"unknown flag", []string{"rungnn", "--nope"}, exit.Usage, "nope"},
		{"unknown flag value", []string{"rungnn", "--deadline", "soon"}, exit.Usage, "soon"},
		{"unknown argument", []string{"rungnn", "now"}, exit.Usage, "now"},
		{"unknown profile", []string{"rungnn", "--profiles", "gnn,xyz"}, exit.Usage, "xyz"},
		{"unknown policy", []string{"rungnn", "--policy", "worst-fit"}, exit.Usage, "best-fit"},
		{"policy of the simulator", []string{"rungnn", "--policy", "clairvoyant:linear"}, exit.Usage, "schedulers do not know what is to come"},
		{"policy and checkpoint", []string{"rungnn", "--policy", "best-fit", "--checkpoint", "x"}, exit.Usage, "exclude"},
		{"policy and profiles", []string{"rungnn", "--policy", "best-fit", "--profiles", "gnn"}, exit.Usage, "--profiles"},
		{"policy and configuration", []string{"rungnn", "--policy", "best-fit", "--config", "x"}, exit.Usage, "--policy"},
		{"profile twice", []string{"rungnn", "--profiles", "gnn,gnn"}, exit.Usage, "twice"},
		{"blend without weight", []string{"rungnn", "--blend", "NodeAffinity"}, exit.Usage, "NAME=WEIGHT"},
		{"checkpoint missing: it starts with upstream's scores", []string{"rungnn", "--kubeconfig", dead, "--checkpoint", "none"},
			exit.Unreachable, "does not answer"},
		{"checkpoint missing", []string{"rungnn", "--shadow", "--checkpoint", "none"}, exit.Checkpoint, "none"},
		{"checkpoint is a pipe", []string{"rungnn", "--shadow", "--checkpoint", pipe}, exit.Checkpoint, "not a regular file"},
		{"checkpoint with absurd weights", []string{"rungnn", "--shadow", "--checkpoint", absurd}, exit.Checkpoint, "fails in a trial decision"},
		{"absurd weights in eval", []string{"gnnsched", "eval", "--checkpoint", absurd}, exit.Checkpoint, "fails in a trial decision"},
		{"port in use", []string{"rungnn", "--kubeconfig", alive, "--port", port}, exit.Usage, "--port"},
		{"log directory", []string{"rungnn", "--kubeconfig", alive, "--log-dir", notADir}, exit.Usage, "--log-dir"},
		{"log level", []string{"rungnn", "--kubeconfig", alive, "--log-level", "loud"}, exit.Usage, "loud"},
		{"configuration missing", []string{"rungnn", "--kubeconfig", alive, "--config", "none.yaml"}, exit.Usage, "none.yaml"},
		{"configuration with an unknown field", []string{"rungnn", "--kubeconfig", alive, "--config",
			write(t, "c.yaml", []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofilez: []\n"))},
			exit.Usage, "profilez"},
		{"tune with a seed of the evaluation", []string{"gnnsched", "tune", "linear", "--seed", "0"}, exit.Usage, "seed is 0: choose 1 to 1073741823"},
		{"demo with a seed of training", []string{"gnnsched", "demo", "--seed", "4294967296"}, exit.Usage,
			"choose seeds below 4294967296"},
		{"demo without workloads", []string{"gnnsched", "demo", "--seeds", "0"}, exit.Usage, "--seeds 0"},
		{"trace of a scenario missing", []string{"gnnsched", "eval", "--scenario", traced, "--policies", "kube-scheduler,best-fit", "--seeds",
			"1"}, exit.Usage, "simulator: trace: open none.csv: no such file or directory\n"},
		{"trace of a scenario malformed", []string{"gnnsched", "eval", "--scenario", malformed, "--policies", "kube-scheduler,best-fit",
			"--seeds", "1"}, exit.Usage, "arrivals needs arrival,cpu_request,mem_request"},
		{"trace to tune on missing", []string{"gnnsched", "tune", "linear", "--scenario", traced}, exit.Usage, "none.csv"},
		{"weights missing", []string{"gnnsched", "eval", "--checkpoint", "mine=none.json"}, exit.Checkpoint,
			"error: load weights: open none.json: no such file or directory\n"},
		{"network missing", []string{"gnnsched", "eval", "--checkpoint", "none.safetensors"}, exit.Checkpoint,
			"error: load checkpoint: open none.safetensors: no such file or directory\n"},
		{"no share", []string{"rungnn", "--share", "0"}, exit.Usage, "--share is 0"},
		{"a share in the shadow", []string{"rungnn", "--share", "0.05", "--shadow"}, exit.Usage, "--share and --shadow exclude each other"},
		{"a share that learns", []string{"rungnn", "--share", "0.05", "--learn"}, exit.Usage, "--share and --learn exclude each other"},
		{"a share for several profiles", []string{"rungnn", "--share", "0.05", "--profiles", "gnn,dqn"}, exit.Usage,
			"--share is for one profile"},
		{"a share for the default profile", []string{"rungnn", "--share", "0.05", "--profiles", "default-scheduler"}, exit.Usage,
			"has no network or policy"},
		{"what is drawn for no share", []string{"rungnn", "--share-by", "owner"}, exit.Usage, "has no effect without --share"},
		{"events of decisions in the shadow", []string{"rungnn", "--shadow", "--decision-events"}, exit.Usage,
			"--decision-events has no effect with --shadow"},
		{"learn in the shadow", []string{"rungnn", "--shadow", "--learn"}, exit.Usage, "--learn and --shadow exclude each other"},
		{"several profiles in the shadow", []string{"rungnn", "--shadow", "--profiles", "gnn,dqn"}, exit.Usage, "one can be in the shadow"},
		{"shadow by what nobody can measure", []string{"rungnn", "--shadow", "--shadow-objective", "hot"}, exit.Usage, "measured usage"},
		{"limits of a shadow without one", []string{"rungnn", "--shadow-pods", "5"}, exit.Usage, "has no effect without --shadow"},
		{"shadow without pods", []string{"rungnn", "--shadow", "--shadow-pods", "0"}, exit.Usage, "choose 1 or more"},
		{"a page for other machines", []string{"rungnn", "--http", "0.0.0.0:8080"}, exit.Usage, "is not loopback"},
		{"a page at no port", []string{"rungnn", "--http", "web"}, exit.Usage, "the port must be 1 to 65535"},
		{"report of a shadow missing", []string{"gnnsched", "shadow", "none.json"}, exit.Usage, "none.json: no such file"},
		{"report of a shadow in another form", []string{"gnnsched", "shadow", write(t, "r.json", []byte("{}"))}, exit.Usage, "its version is"},
		{"report of a shadow not named", []string{"gnnsched", "shadow"}, exit.Usage, "--shadow-report"},
		{"serve without a cluster", []string{"gnnsched", "serve"}, exit.Kubeconfig, "kwokcluster up"},
		{"serve with a kubeconfig that is missing", []string{"gnnsched", "serve", "--kubeconfig", "none"}, exit.Kubeconfig, "none: no such file"},
		{"serve on a port in use", []string{"gnnsched", "serve", "--kubeconfig", alive, "--port", port}, exit.Usage,
			"choose another port with --port"},
		{"serve with a CA that is missing", []string{"gnnsched", "serve", "--kubeconfig", alive, "--port", "0", "--tls-cert-file", "none",
			"--tls-private-key-file", "none", "--client-ca-file", "none"}, exit.Usage, "name a PEM file with --client-ca-file"},
		{"serve with tokens that are missing", []string{"gnnsched", "serve", "--kubeconfig", alive, "--port", "0", "--tls-cert-file", "none",
			"--tls-private-key-file", "none", "--token-auth-file", "none"}, exit.Usage, "a line of --token-auth-file is"},
		{"serve with a certificate that is missing", []string{"gnnsched", "serve", "--kubeconfig", alive, "--port", "0", "--tls-cert-file",
			"none", "--tls-private-key-file", "none", "--token-auth-file", write(t, "tokens", []byte("t,u,1\n"))}, exit.Usage,
			"check --tls-cert-file"},
		{"work without a queue", []string{"gnnsched", "work"}, exit.Usage, "--listen"},
		{"work at a queue that is away", []string{"gnnsched", "work", "--connect", "nats://127.0.0.1:1", "--log-dir", ""}, exit.Unreachable,
			"gnnsched work --listen"},
		{"a queue for everybody", []string{"gnnsched", "work", "--listen", "0.0.0.0:0", "--queue", t.TempDir(), "--log-dir", ""}, exit.Usage,
			"docs/how-to/workers.md"},
		{"a queue without a certificate", []string{"gnnsched", "work", "--listen", "127.0.0.1:0", "--tls-dir", "none", "--log-dir", ""},
			exit.Usage, "--tls-dir is a folder"},
		{"doctor of no program", []string{"gnnsched", "doctor", "work"}, exit.Usage, "no program is called"},
		{"no workers", []string{"gnnsched", "eval", "--workers", "0"}, exit.Usage, "1 to 1000"},
		{"workers without a scheme", []string{"gnnsched", "eval", "--workers", "queue:4222"}, exit.Usage, "nats://"},
		{"serve without a key", []string{"gnnsched", "serve", "--tls-cert-file", "x"}, exit.Usage, "--tls-private-key-file"},
		{"serve others without certificates", []string{"gnnsched", "serve", "--bind-address", "0.0.0.0"}, exit.Usage, "are for loopback"},
		{"serve at an address without TLS", []string{"gnnsched", "serve", "--print-extender-config", "--url", "http://a"}, exit.Usage,
			"begins with https://"},
		{"serve from a namespace that cannot be", []string{"gnnsched", "serve", "--print-rbac", "--namespace", "A_B"}, exit.Usage, "--namespace"},
		{"serve with a negative promise", []string{"gnnsched", "serve", "--promise", "-1s"}, exit.Usage, "choose 0 for never"},
		{"unknown command", []string{"gnnsched", "fly"}, exit.Usage, "fly"},
		{"misspelt command", []string{"gnnsched", "evla"}, exit.Usage, "did you mean `gnnsched eval`?"},
		{"misspelt flag under a link's name", []string{"rungnn", "--polcy", "fgd"}, exit.Usage, "did you mean --policy?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := run(t, c.args...)
			if code != c.code || !strings.Contains(stderr, c.say) {
				t.Errorf("exit code %d, want %d; stderr %q wants %q", code, c.code, stderr, c.say)
			}
			if stdout != "" {
				t.Errorf("stdout: %q", stdout)
			}
			if !strings.Contains(stderr, "error: ") {
				t.Errorf("no error line: %q", stderr)
			}
		})
	}
}

// A scheduler with leader election logs that it waits for the lease, whether a flag or a file sets it. The message comes before the leader
// is known.
func TestBegins(t *testing.T) {
	elects := server.Config{LeaderElect: true}
	for text, want := range map[string]string{"": "waiting for the lease", "leaderElection: {leaderElect: false}\n": "scheduling"} {
		f := fatal.Value(userconfig.Read(write(t, "config.yaml",
			[]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+text))))(t)
		if got := (request{config: f}).begins(); !strings.HasPrefix(got, want) {
			t.Errorf("a file with %q: %q", text, got)
		}
	}
	if got := (request{config: elects}).begins(); !strings.HasPrefix(got, "waiting for the lease") {
		t.Errorf("--leader-elect: %q", got)
	}
	if got := (request{config: server.Config{}}).begins(); got != "scheduling" {
		t.Errorf("without election: %q", got)
	}
}

// The help of eval lists every shipped network.
func TestEvalHelpListsNetworks(t *testing.T) {
	_, stdout, _ := run(t, "gnnsched", "eval", "--help-all")
	for _, name := range checkpoint.ShippedNames() {
		if !strings.Contains(stdout, name) {
			t.Errorf("it lacks %s", name)
		}
	}
}

// A flag that has a counterpart in the configuration file is refused together with --config, so
// that no flag is ignored silently.
func TestConfigExcludesFlags(t *testing.T) {
	file := write(t, "config.yaml", []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"))
	beside := []string{"config", "print-config", "bind-address", "port", "feature-gates"}
	for _, variant := range server.Variants {
		for _, f := range slices.Concat(runFlags(variant), learn.SchedulerFlags()) {
			name := f.Names()[0]
			if slices.Contains(beside, name) {
				continue
			}
			arg := "--" + name
			switch f.(type) {
			case *ucli.IntFlag, *ucli.Int64Flag, *ucli.Uint64Flag, *ucli.Float64Flag:
				arg += "=1"
			case *ucli.DurationFlag:
				arg += "=1s"
			case *ucli.BoolFlag:
			default:
				arg += "=x=1"
			}
			code, _, stderr := run(t, "run"+variant, "--config", file, "--print-config", arg)
			if code != exit.Usage || !strings.Contains(stderr, "--"+name+" and --config exclude each other") {
				t.Errorf("run%s %s: exit code %d, %s", variant, arg, code, stderr)
			}
		}
	}
}

// Every command has help with examples, as a link and as a subcommand.
func TestHelp(t *testing.T) {
	for _, c := range commands() {
		if c.Hidden {
			continue
		}
		for _, args := range [][]string{{c.Name, "--help"}, {"gnnsched", c.Name, "--help"}} {
			code, stdout, stderr := run(t, args...)
			if code != exit.OK || !strings.Contains(strings.ToLower(stdout), "examples:") {
				t.Errorf("%v: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
			}
		}
	}
}

// Flags with underscores, as in similar tools, are accepted.
func TestUnderscores(t *testing.T) {
	if code, stdout, stderr := run(t, "rungnn", "--scheduler_name=mine", "--print_config"); code != 0 ||
		!strings.Contains(stdout, "schedulerName: mine") {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
}

// A scheduler runs a policy of eval under its name; what its name says stays where the flags say nothing.
func TestPolicyOfEval(t *testing.T) {
	for policy, want := range map[string][]string{
		"running:gpu-gnn":       {"schedulerName: running-gpu-gnn", "variant: gpu-gnn"},
		"greedy:pack=0.5+zones": {"policy: greedy:pack=0.5+zones"},
	} {
		code, stdout, stderr := run(t, "rungnn", "--policy", policy, "--print-config")
		for _, w := range want {
			if code != 0 || !strings.Contains(stdout, w) {
				t.Errorf("%s: code %d, %s%s", policy, code, stdout, stderr)
			}
		}
	}
}

// One profile may have another name, several may not; a profile takes no other network or policy.
func TestOneProfile(t *testing.T) {
	if code, stdout, stderr := run(t, "rungnn", "--profiles", "gnn", "--scheduler-name", "mine", "--print-config"); code != 0 ||
		!strings.Contains(stdout, "schedulerName: mine") || !strings.Contains(stdout, "variant: gnn") {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
	for command, want := range map[string]string{
		"rungnn --profiles gnn,dqn --scheduler-name mine": "--scheduler-name describes one scheduler",
		"rungnn --profiles gnn --policy fgd":              "--policy describes one scheduler",
		"rungnn --profiles gnn --checkpoint f":            "--checkpoint describes one scheduler",
	} {
		if code, _, stderr := run(t, strings.Fields(command)...); code != exit.Usage || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %s", command, code, stderr)
		}
	}
}

// Unusable files end in one line with the reason, one with the next step, and exit code 2. Nothing is written.
func TestBadFiles(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	t.Chdir(t.TempDir())
	const (
		network = "network: {node: {latency: 0.1}, rack: {latency: 0.3}, zone: {latency: 1}}\n"
		vms     = "Timestamp [ms];CPU cores;CPU capacity provisioned [MHZ];CPU usage [MHZ];Memory capacity provisioned [KB]\n"
		node    = `{"kind":"List","apiVersion":"v1","items":[{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"},"status":{"allocatable":{"cpu":"`
	)
	for name, text := range map[string]string{
		"cut.yaml": "network: {node: {latency: 0.1}, rack: {lat", "nan.yaml": "network: {node: {latency: .nan}, zone: {latency: 1}}\n",
		"negative.yaml": "network: {node: {latency: -1}, zone: {latency: 1}}\n",
		"huge.yaml":     "network: {node: {latency: 1e300}}\n", "version.yaml": "apiVersion: v2\n" + network, "empty.yaml": "",
		"only.yaml":   network,
		"binary.yaml": "\x00\x01\x02",
		"old.yaml":    network + "measured: {address: 'https://p:9090', maxAge: -5m}\n",
		"token.yaml":  network + "measured: {address: 'https://p:9090', tokenFile: none}\n",
		"nan.csv":     vms + "1376352000;NaN;11704;6213;5\n",
		"cut.json":    node + "4", "version.json": `{"kind":"List","apiVersion":"v9","items":[]}`, "empty.json": "",
		"node.json": `{"kind":"Node","apiVersion":"v2","metadata":{"name":"a"}}`,
		"nan.json":  node + `NaN"}}}]}`,
	} {
		fatal.If(t, os.WriteFile(name, []byte(text), 0o600))
	}
	fatal.If(t, os.Mkdir("folder", 0o700))
	traffic := func(file string) []string { return []string{"rungnn", "--print-config", "--traffic", file} }
	convert := func(args ...string) []string { return append([]string{"gnnsched", "convert", "--log-dir="}, args...) }
	toRecord := func(file string) []string { return convert("--out", "out.record", file) }
	for _, c := range []struct {
		name string
		args []string
		say  string
	}{
		{"traffic missing", traffic("none.yaml"), "none.yaml: no such file"},
		{"traffic is a folder", traffic("folder"), "is a directory"},
		{"traffic cut off", traffic("cut.yaml"), "cut.yaml: error converting YAML"},
		{"traffic NaN", traffic("nan.yaml"), "unsupported value: NaN"},
		{"traffic negative", traffic("negative.yaml"), "node.latency: -1 is not 0 to 100000"},
		{"traffic huge", traffic("huge.yaml"), "node.latency: 1e+300 is not 0 to"},
		{"traffic of another version", traffic("version.yaml"), `unknown field "apiVersion"`},
		{"traffic empty", traffic("empty.yaml"), "all distances are 0"},
		{"traffic without a source", traffic("only.yaml"), "measured: address must be a URL"},
		{"traffic binary", traffic("binary.yaml"), "control characters"},
		{"traffic with a negative age", traffic("old.yaml"), "maxAge is -5m0s, want at least"},
		{"traffic with a token that is missing", traffic("token.yaml"), "open none: no such file"},
		{"source unknown", []string{"rungnn", "--print-config", "--usage", "graphite"}, "choose prometheus or metrics.k8s.io"},
		{"record of a missing file", toRecord("none.json"), "none.json: no such file"},
		{"record cut off", toRecord("cut.json"), "the file is cut off after 132 bytes"},
		{"record of another version", toRecord("version.json"), `its apiVersion is "v9", want v1`},
		{"record of a node of another version", toRecord("node.json"),
			`no node and no pod; left out, because it cannot be read: node.json: "a": its apiVersion is "v2", want v1`},
		{"record NaN", toRecord("nan.json"), "quantities must match"},
		{"record of nothing", toRecord("empty.json"), "the file is empty"},
		{"record of a trace of no format", toRecord("nan.csv"), "nan.csv:1: the first line is neither"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := run(t, c.args...)
			lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
			if code != exit.Usage || len(lines) != 2 || !strings.Contains(lines[0], "error: ") || !strings.Contains(lines[0], c.say) ||
				!strings.Contains(lines[1], "hint: ") {
				t.Errorf("exit code %d, stderr %q; want code %d, an error with %q, and a hint", code, stderr, exit.Usage, c.say)
			}
			if stdout != "" {
				t.Errorf("stdout: %q", stdout)
			}
			if left, _ := filepath.Glob("out.record*"); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
}
