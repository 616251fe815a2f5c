package contender_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	other "gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

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
