package contender_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/policy"
	other "gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/stock"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
)

// weights is a file of linear weights.
var weights = filepath.Join("..", "..", "policy", "linear", "linear.json")

func TestListNamesEveryPolicyOnce(t *testing.T) {
	all := fatal.Value(contender.List(nil, []string{"mine=" + weights}))(t)
	names := each.Map(all, func(x eval.Contender) string { return x.Name })
	if d := cmp.Diff(append(contender.Names(), "mine"), names); d != "" {
		t.Error(d)
	}
	for _, c := range []struct {
		names, files []string
		want         string
		code         int
		hint         string
	}{
		{[]string{"random", "random"}, []string{"mine=" + weights}, `two policies are called "random"`, exit.Usage, "name each policy once"},
		{[]string{"random"}, []string{weights, "linear=" + weights}, `two policies are called "linear"`, exit.Usage, "--checkpoint NAME=FILE"},
		{[]string{"running:clairvoyant:random"}, nil, "is no policy", exit.Usage, ""},
		{[]string{"defrag=2%/1h:clairvoyant:random"}, nil, "is no policy", exit.Usage, ""},
		{[]string{"clairvoyant:defrag=2%/1h:random"}, nil, "pods move already", exit.Usage, ""},
		{[]string{"defrag=2%/1h:defrag=1%/1h:random"}, nil, "pods move already", exit.Usage, ""},
		{[]string{"defrag=2/1h:random"}, nil, `"2" is no share`, exit.Usage, "defrag=2%/1h:random"},
		{[]string{"defrag=101%/1h:random"}, nil, "no share", exit.Usage, "defrag=2%/1h:random"},
		{[]string{"defrag=2%:random"}, nil, "a share and a time", exit.Usage, "defrag=2%/1h:random"},
		{[]string{"defrag=2%/0s:random"}, nil, `"0s" is no time over 0`, exit.Usage, "defrag=2%/1h:random"},
		{[]string{"defrag=2%/1h/best:random"}, nil, `search`, exit.Usage, "defrag=2%/1h:random"},
		{[]string{"defrag=2%/1h:nothing"}, nil, "no policy is called", exit.Usage, "--checkpoint"},
		{[]string{"running:nothing"}, nil, "no policy is called", exit.Usage, "--checkpoint"},
		{[]string{"optimum"}, nil, "no policy is called", exit.Usage, "--checkpoint"},
		{[]string{"stock:none.yaml"}, nil, "none.yaml", exit.Usage, "KubeSchedulerConfiguration"},
		{nil, []string{"mine=none.yml"}, "none.yml", exit.Usage, "KubeSchedulerConfiguration"},
		{nil, []string{"none.safetensors"}, "none.safetensors", exit.Checkpoint, "check the path"},
	} {
		_, err := contender.List(c.names, c.files)
		var e *exit.Error
		if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(err.Error(), c.want) || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%v, %v: %+v", c.names, c.files, e)
		}
	}
}

func TestWithProfiles(t *testing.T) {
	files := []string{"mine=" + weights}
	all := fatal.Value(contender.List([]string{contender.Kubernetes, "best-fit", "gnn"}, files))(t)
	with := fatal.Value(contender.WithProfiles(all, files))(t)
	path := fatal.Value(filepath.Abs(weights))(t)
	want := []server.Profile{
		{SchedulerName: "kube-scheduler", Args: server.Args{Variant: server.DefaultProfile}},
		{SchedulerName: "best-fit", Args: server.Args{Policy: "best-fit"}},
		{SchedulerName: "gnn", Args: server.Args{Variant: "gnn"}},
		{SchedulerName: "mine", Args: server.Args{Policy: "linear:" + path}},
	}
	for i, x := range with {
		if d := cmp.Diff(want[i], x.Profile); d != "" {
			t.Errorf("%s: %s", x.Name, d)
		}
	}
}

// A KubeSchedulerConfiguration is a policy in the simulator, and upstream's own profile on a cluster.
func TestStock(t *testing.T) {
	profile := stock.Default()
	profile.Strategy = stock.MostAllocated
	text := fatal.Value(server.WriteStockConfig(profile, "a test"))(t)
	file := filepath.Join(t.TempDir(), "s.yaml")
	fatal.If(t, os.WriteFile(file, text, 0o600))
	all := fatal.Value(contender.List([]string{"stock:" + file}, []string{file}))(t)
	with := fatal.Value(contender.WithProfiles(all, []string{file}))(t)
	for i, name := range []string{"stock:" + file, "s"} {
		want := server.Profile{SchedulerName: name, Stock: &profile, Args: server.Args{Variant: server.DefaultProfile}}
		if d := cmp.Diff(want, with[i].Profile); d != "" || with[i].Name != name || !with[i].RandomTies {
			t.Errorf("%+v: %s", with[i], d)
		}
	}
}

// running:POLICY is the policy for the typical pods that run, where they are known. Of networks it has a profile.
func TestRunning(t *testing.T) {
	x, err := contender.Named("running:fgd")
	if err != nil || x.Name != "running:fgd" {
		t.Fatalf("%+v, %v", x, err)
	}
	typical := func(gpus int64) *fragmentation.Typical {
		return fragmentation.NewTypical([]fragmentation.Demand{{Requests: cluster.Resources{MilliCPU: 1000, GPU: gpus}, Count: 1}})
	}
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, GPU: 1, Pods: 1}}
	node := func(gpus int) *cluster.Node {
		return &cluster.Node{
			Allocatable: cluster.Resources{MilliCPU: 64000, Memory: 1, GPU: int64(gpus), Pods: 9}, GPUs: make([]int64, gpus),
			Version: cluster.NextVersion(),
		}
	}
	nodes := &cluster.Snapshot{Nodes: []*cluster.Node{node(4), node(3)}}
	best := func(s policy.Setting) int {
		scores := make([]float32, 2)
		fatal.If(t, x.New(s).Score(nodes, pod, []int32{0, 1}, scores))
		return policy.Best(scores)
	}
	if got := best(policy.Setting{Typical: typical(1), Running: typical(4)}); got != 1 {
		t.Error("it breaks up the only node for pods of four devices, which run")
	}
	if got := best(policy.Setting{Typical: typical(1)}); got != 0 {
		t.Error("it does not go by the pods that arrive, where no others are known")
	}
	if _, err := contender.WithProfiles([]eval.Contender{x}, nil); err == nil || !strings.Contains(err.Error(), "no profile on a cluster") {
		t.Errorf("got %v", err)
	}
	if x, err = contender.Named("running:gpu-gnn"); err != nil {
		t.Fatal(err)
	}
	with := fatal.Value(contender.WithProfiles([]eval.Contender{x}, nil))(t)
	want := server.Profile{SchedulerName: "running-gpu-gnn", Args: server.Args{Variant: "gpu-gnn"}}
	if d := cmp.Diff(want, with[0].Profile); d != "" || !with[0].Running {
		t.Errorf("%v: %s", with[0].Running, d)
	}
}

// A network in a file may count running pods, too. It has no profile on a cluster.
func TestFilesWherePodsLeave(t *testing.T) {
	file := filepath.Join("..", "..", "..", "gnn", "checkpoint", "shipped", "gpu-gnn.safetensors")
	files := []string{"running:mine=" + file, "running:" + file}
	all := fatal.Value(contender.List([]string{"fgd"}, files))(t)
	for i, want := range []string{"fgd", "running:mine", "running:gpu-gnn"} {
		if all[i].Name != want {
			t.Errorf("%s, not %s", all[i].Name, want)
		}
	}
	for i, f := range files {
		if _, err := contender.WithProfiles(all[i+1:i+2], []string{f}); exit.Code(err) != exit.Usage {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// Pods that move lower the cost over time, in the intervals and up to the number that the name says, whatever the objective. What the
// simulator cannot do is an error.
func TestDefrag(t *testing.T) {
	find := func(name string) eval.Scenario {
		return fatal.Value(eval.Find(name))(t)
	}
	play := func(s eval.Scenario, names ...string) (*eval.Comparison, error) {
		all := fatal.Value(contender.List(names, nil))(t)
		return eval.Compare(t.Context(), s, all, []uint64{1}, nil)
	}
	for _, c := range []struct {
		scenario eval.Scenario
		policy   string
	}{{find("small8"), "linear"}, {find("small8"), "gnn"}, {find("pack"), "greedy:pack"}} {
		r := fatal.Value(play(c.scenario, c.policy, "defrag=5%/20:"+c.policy, "defrag=5%/20/greedy:"+c.policy))(t)
		still, local, greedy := r.Results[0].Outcomes[0], r.Results[1].Outcomes[0], r.Results[2].Outcomes[0]
		if still.Moves != nil || greedy.Moves == nil || local.Moves.Moved == 0 || local.Moves.Work == 0 || local.MeanCost >= still.MeanCost {
			t.Errorf("%s: cost %v, %v with moves, %v with single moves: %+v, %+v", r.Results[1].Name, still.MeanCost, local.MeanCost,
				greedy.MeanCost, local.Moves, greedy.Moves)
		}
	}
	for want, c := range map[string]struct{ scenario, policy string }{
		"has no seconds":           {"tiny", "defrag=2%/1h:random"},
		"measured after a move":    {"harvest", "defrag=2%/100:random"},
		"no time at which pods co": {"aaml", "defrag=2%/100:random"},
	} {
		if _, err := play(find(c.scenario), c.policy); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s on %s: %v, want %q", c.policy, c.scenario, err, want)
		}
	}
}

// A comma in an objective separates policies, so the hint joins the terms with a plus sign. Misspelt names get the probable name.
func TestUnknownNames(t *testing.T) {
	for _, c := range []struct {
		names []string
		says  string // in the error
		hint  string
	}{
		{[]string{"greedy:balance", "energy"}, `no policy is called "energy"`, "greedy:balance+energy"},
		{[]string{"linear", "greedy:balance=2", "pack=0.5"}, `no policy is called "pack=0.5"`, "greedy:balance=2+pack=0.5"},
		{[]string{"greedy:balence", "pack"}, `"balence"`, "greedy:balence+pack"},
		{[]string{"greedy:balance", "pakc=2"}, `no policy is called "pakc=2"`, "greedy:balance+pakc=2"},
		{[]string{"greedy:balence=0.5+energy", "pakc"}, `"balence"`, "greedy:balence=0.5+energy+pakc"},
		{[]string{"greedy:balanse", "linear"}, "did you mean balance?", ""},
		{[]string{"linear", "energy"}, `no policy is called "energy"`, "--checkpoint"},
		{[]string{"gready-balance"}, "did you mean greedy-balance?", "--checkpoint"},
		{[]string{"greedy:balanse"}, "did you mean balance?", ""},
	} {
		_, err := contender.List(c.names, nil)
		var e *exit.Error
		if !errors.As(err, &e) || e.Code != exit.Usage || !strings.Contains(err.Error(), c.says) || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%v: %v, hint %q", c.names, err, e.Hint)
		}
	}
}

// Another process finds the file of a policy whose pods move.
func TestOriginOfDefrag(t *testing.T) {
	x := fatal.Value(contender.Named("defrag=2%/1h:linear:" + weights))(t)
	if o := x.Origin; o.File != weights || o.Policy != "defrag=2%/1h:linear:" {
		t.Errorf("%+v", o)
	}
}

// started returns a simulator of a scenario.
func started(t *testing.T, name string) *sim.Env {
	t.Helper()
	s := fatal.Value(eval.Find(name))(t)
	c := s.Config
	if c.Nodes.Min > 8 {
		c.Nodes = sim.IntRange{Min: 6, Max: 6}
	}
	return fatal.Value(sim.New(c))(t)
}

// total plays an episode and returns the sum of the costs after its placements.
func total(t *testing.T, env *sim.Env, seed uint64, decide eval.Decide) float64 {
	t.Helper()
	var sum float64
	first := true
	o := fatal.Value(eval.Episode(env, seed, func(env *sim.Env) (eval.Choice, error) {
		if !first {
			sum += env.Cost()
		}
		first = false
		return decide(env)
	}))(t)
	return sum + o.Cost
}

// Rollouts to the end of the episode are at least as good as their policy: at each decision they can still follow it.
func TestLookaheadImproves(t *testing.T) {
	for _, name := range []string{"tiny", "hetero90"} {
		env := started(t, name)
		better := 0
		for seed := range uint64(3) {
			l := &contender.Lookahead{Policy: heuristic.Kubernetes{}, Horizon: 1 << 30, Candidates: 3}
			base := total(t, env, seed, eval.Deciding(heuristic.Kubernetes{}, nil))
			improved := total(t, env, seed, l.Decide)
			if improved > base+1e-9 {
				t.Errorf("%s, seed %d: the costs sum up to %v, and to %v with knowledge of the future", name, seed, base, improved)
			}
			if improved < base-1e-9 {
				better++
			}
		}
		if better == 0 {
			t.Errorf("%s: knowledge of the future changes nothing", name)
		}
	}
}

// needNumPy skips the test where no Python has NumPy.
func needNumPy(t *testing.T) {
	t.Helper()
	for _, program := range []string{os.Getenv("GNNSCHED_PYTHON"), "python3", "/usr/bin/python3"} {
		if program != "" && exec.Command(program, "-c", "import numpy").Run() == nil {
			t.Setenv("GNNSCHED_PYTHON", program)
			return
		}
	}
	t.Skip("no python3 with NumPy (Debian: python3-numpy)")
}

func find(t *testing.T, name string) eval.Scenario {
	t.Helper()
	return fatal.Value(eval.Find(name))(t)
}

// policyOf returns a policy in a file with this text.
func policyOf(t *testing.T, text string) eval.Contender {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.py")
	fatal.If(t, os.WriteFile(file, []byte(text), 0o600))
	return fatal.Value(contender.PythonFile(file))(t)
}

// A rule in Python has the same outcomes as in Go, in every metric and to the last bit.
func TestAgrees(t *testing.T) {
	needNumPy(t)
	weights := filepath.Join(t.TempDir(), "least.json")
	fatal.If(t, os.WriteFile(weights, []byte(`{"name": "least", "weights": {"used": -1}}`), 0o600))
	all := fatal.Value(contender.List([]string{"python:testdata/least.py", "linear:" + weights}, nil))(t)
	for _, name := range []string{"small8", "mixed", "lossy"} {
		s := find(t, name)
		done, watched := 0, 0
		all[0].Observe = func(uint64) eval.Observer { return count{&watched} }
		c := fatal.Value(eval.Compare(t.Context(), s, all, []uint64{1, 2, 3}, func(n, _ int) { done = n }))(t)
		if d := cmp.Diff(c.Results[1].Outcomes, c.Results[0].Outcomes); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if done != 6 || watched < 3 {
			t.Errorf("%s: %d episodes done, %d watched", name, done, watched)
		}
	}
}

// count counts episodes.
type count struct{ n *int }

func (count) Decided(*sim.Env, eval.Choice) {}
func (c count) Ended(*sim.Env)              { *c.n++ }

// A policy that crashes, hangs or answers nonsense ends the evaluation with a message that names the seed.
func TestFaults(t *testing.T) {
	needNumPy(t)
	s := find(t, "small8")
	const head = "import os, sys, time\nimport numpy as np\n"
	const calm = "def policy(obs):\n    print('noise')\n    "
	for text, want := range map[string]string{
		"def f(:": "load the policy: SyntaxError",
		head + "def policy(obs):\n    raise ValueError('no idea')": "seed 7, decision 1: " +
			"ValueError: no idea (line 4: raise",
		head + "def policy(obs):\n    assert obs['pod_x'].shape[0] > 1 or 0, " +
			"'alone'\n    1 / 0": "seed 7, decision 1: ZeroDivisionError",
		head + "def policy(obs):\n    os._exit(3)": "seeds 7 to 9, decision 1: the interpreter ended (exit status 3",
		head + "def policy(obs):\n    sys.stderr.write('last words\\n'); sys.stderr.flush(); os.kill(os.getpid(), 9)": "last words",
		head + "TIMEOUT = 0.3\ndef policy(obs):\n    time.sleep(60)": "seeds 7 to 9, " +
			"decision 1: no answer within 300ms",
		head + calm + "return np.zeros(3)":                                                    "answered scores of shape [3], want [",
		head + calm + "return np.zeros((1, len(obs['action_mask'])))":                         "of shape [1 ",
		head + calm + "return 'x'":                                                            "answered <U1",
		head + calm + "return np.full(len(obs['action_mask']), np.nan)":                       "seed 7: the score of candidate 0 is no number",
		head + calm + "return np.full(3, 99)":                                                 "environment 0: seed 7: action 99 is none of",
		head + "OBSERVATION = {'features': ['x']}\n" + calm + "return 0":                      `feature set "x" is not known`,
		head + "def begin(info):\n    raise KeyError(info['scenario'])\n" + calm + "return 0": "KeyError: 'small8'",
		head + calm + "m = obs['action_mask']; return np.array([np.argmin(r) if not r.all() else np.argmax(r) for r in np.split(m, " +
			"obs['candidate_offsets'][1:-1])])": "is masked",
	} {
		_, err := eval.Compare(t.Context(), s, []eval.Contender{policyOf(t, text)}, []uint64{7, 8, 9}, nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "scenario small8: python:") {
			t.Errorf("%s\n%v\nwant %s", text, err, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := eval.Compare(ctx, s, []eval.Contender{policyOf(t, head+"def policy(obs):\n    time.sleep(60)")}, []uint64{1}, nil); err == nil {
		t.Error("a cancelled evaluation has results")
	}
}

// A policy may read graphs, of any kind of cluster, and the names of the features.
func TestGraph(t *testing.T) {
	needNumPy(t)
	const text = `
import numpy as np
OBSERVATION = {"features": ["base", "whole"], "graph": True, "raw": True}
def begin(info):
    global cpu
    cpu = info["names"]["candidate"].index("cpu")
def policy(obs):
    if len(obs["candidate_offsets"]) == 2 and obs["candidate_node"].max() >= len(obs["node_x"]): raise IndexError
    mean = np.zeros(len(obs["node_x"])); np.add.at(mean, obs["group_node"], obs["group_weight"])
    return -obs["candidate_x"][:, cpu] - 1e-3 * mean[obs["candidate_node"]]
`
	c, err := eval.Compare(t.Context(), find(t, "gpu-pool"), []eval.Contender{policyOf(t, text)}, []uint64{1, 2}, nil)
	if err != nil || c.Results[0].Outcomes[1].Placed == 0 {
		t.Fatalf("%+v, %v", c, err)
	}
}

func TestMissing(t *testing.T) {
	if _, err := contender.PythonFile("no.py"); exit.Code(err) != exit.Usage {
		t.Error(err)
	}
	for _, name := range []string{"running", "first-fit", "clairvoyant", "defrag=2%/1h"} {
		if _, err := contender.Named(name + ":python:testdata/least.py"); exit.Code(err) != exit.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := policyOf(t, "").New(other.Setting{}).Score(nil, nil, nil, nil); exit.Code(err) != exit.Usage {
		t.Error(err)
	}
	t.Setenv("GNNSCHED_PYTHON", "/no/python")
	if _, err := eval.Compare(t.Context(), find(t, "tiny"), []eval.Contender{policyOf(t, "")}, []uint64{1}, nil); err == nil ||
		!strings.Contains(err.Error(), "run Python") {
		t.Error(err)
	}
}
