package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
)

func savedCheckpoint(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "mine.safetensors")
	c := checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.ActorCritic, Hidden: 8},
		rand.New(rand.NewPCG(1, 2)))
	if err := c.Save(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEval(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want []string // in stdout
	}{
		{"summary", []string{"--seeds", "2"}, []string{"│ kube-scheduler ", "│ best-fit", "2 paired seeds (1 to 2)",
			"Difference from kube-scheduler", "│ significant │"}},
		{"table", []string{"--seeds", "2", "--all"},
			[]string{"│ kube-scheduler ", "│ best-fit", "2 paired seeds (1 to 2)", "Difference from kube-scheduler", "│ imbalance "}},
		{"markdown", []string{"--seeds", "2", "-o", "markdown"}, []string{"### aaml", "| most-allocated "}},
		{"linear weights by name", []string{"--seeds", "1", "--policies", "linear,linear:../../scheduler/policy/linear/linear.json",
			"--threshold", `"linear:../../scheduler/policy/linear/linear.json".cost <= linear.cost`},
			[]string{"│ linear:../../scheduler/policy/linear/linear.json ", "PASS"}},
		{"linear weights", []string{"--seeds", "1", "--policies", "random", "--checkpoint", "mine=../../scheduler/policy/linear/linear.json"},
			[]string{"│ mine "}},
		{"csv", []string{"--seeds", "1", "-o", "csv"}, []string{"scenario,policy,seed,cost,", "aaml,kube-scheduler,1,0."}},
		{"checkpoint", []string{"--seeds", "1", "--policies", "random", "--checkpoint", savedCheckpoint(t), "--checkpoint",
			"other=" + savedCheckpoint(t)}, []string{"│ random", "│ mine", "│ other", "seed 1 alone"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := run(t, append([]string{"gnnsched", "eval", "--scenario", "aaml"}, c.args...)...)
			if code != exit.OK {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			for _, w := range c.want {
				if !strings.Contains(stdout, w) {
					t.Errorf("%q is missing in\n%s", w, stdout)
				}
			}
		})
	}
}

func TestEvalJSON(t *testing.T) {
	code, stdout, stderr := run(t, "gnnsched", "eval", "--seeds", "2", "--seed", "5", "-o", "json", "--policies", "random,best-fit")
	var got []struct {
		Scenario, Baseline string
		Seeds              []uint64
		Policies           []struct {
			Name     string
			Mean     map[string]float64
			Outcomes []map[string]float64
		}
	}
	if err := json.Unmarshal([]byte(stdout), &got); code != exit.OK || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, stderr)
	}
	if len(got) != len(eval.Default) || got[0].Baseline != "random" || got[0].Seeds[0] != 5 || len(got[0].Policies) != 2 ||
		len(got[0].Policies[1].Outcomes) != 2 {
		t.Errorf("%+v", got)
	}
	if m := got[0].Policies[1]; m.Mean["cpuStd"] != (m.Outcomes[0]["cpuStd"]+m.Outcomes[1]["cpuStd"])/2 || m.Mean["cpuStd"] == 0 {
		t.Errorf("mean %v of %v", m.Mean, m.Outcomes)
	}
}

// A comparison from -o json is printed again as if it were played again, and thresholds can be added.
func TestEvalFrom(t *testing.T) {
	play := []string{"gnnsched", "eval", "--scenario", "tiny", "--seeds", "6", "--policies", "kube-scheduler,gnn", "--threshold", "gnn.cost<9"}
	_, played, _ := run(t, append(play, "-o", "json")...)
	file := write(t, "r.json", []byte(played))
	for _, format := range []string{"json", "csv", "markdown", "table"} {
		_, first, _ := run(t, append(play, "-o", format)...)
		code, again, stderr := run(t, "gnnsched", "eval", "--from", file, "-o", format)
		if code != exit.OK || first != again || first == "" {
			t.Errorf("%s: code %d, %s\n%s\nplayed:\n%s", format, code, stderr, again, first)
		}
	}
	if code, stdout, _ := run(t, "gnnsched", "eval", "--from", file, "--threshold", "tiny: gnn.cost<0"); code != exit.Gate ||
		!strings.Contains(stdout, "FAIL tiny: gnn.cost < 0") || !strings.Contains(stdout, "PASS gnn.cost < 9") {
		t.Errorf("code %d: %s", code, stdout)
	}
}

func TestEvalBadInput(t *testing.T) {
	t.Setenv("PATH", "") // has no kwokcluster
	for _, c := range []struct {
		args []string
		code int
		say  string
	}{
		{[]string{"now"}, exit.Usage, "now"},
		{[]string{"--scenario", "moon"}, exit.Usage, "there are aaml, "},
		{[]string{"--scenario", "moon.yaml"}, exit.Usage, "moon.yaml: no such file"},
		{[]string{"--scenario", write(t, "s.yaml", []byte("name: x\nnodez: 3\n"))}, exit.Usage, "s.yaml: scenario x: unknown field"},
		{[]string{"--scenario", "aaml,a*"}, exit.Usage, "aaml is there twice"},
		{[]string{"--print-scenario", "moon"}, exit.Usage, "there are aaml, "},
		{[]string{"--live", "-o", "csv"}, exit.Usage, "--live has no csv"},
		{[]string{"--live", "--scenario", "lossy", "--checkpoint", "../../scheduler/policy/linear/linear.json", "--policies", "random",
			"--log-dir", ""}, exit.Usage, "not found in $PATH"},
		{[]string{"--policies", "linear:none.json"}, exit.Usage, "none.json: no such file"},
		{[]string{"--policies", "greedy:luck"}, exit.Usage, `no term is called "luck"`},
		{[]string{"--live", "--all"}, exit.Usage, "--all works in the simulator only"},
		{[]string{"--live", "--log-dir", ""}, exit.Usage, "not found in $PATH"},
		{[]string{"--threshold", "gnn<1"}, exit.Usage, "policy.metric"},
		{[]string{"--threshold", "me.cpuStd<1"}, exit.Usage, "does not take part"},
		{[]string{"--threshold", "moon: gnn.cpuStd<1"}, exit.Usage, "none of the scenarios"},
		{[]string{"--threshold", "greedy:pack.cost<1"}, exit.Usage, `in double quotes, as in "greedy:pack".cost`},
		{[]string{"--policies", "random", "--threshold", `"greedy:pack".cost<1`}, exit.Usage, `policy "greedy:pack" does not take part`},
		{[]string{"--policies", "guess"}, exit.Usage, "kube-scheduler, most-allocated"},
		{[]string{"--policies", "random,random"}, exit.Usage, "two policies"},
		{[]string{"--seeds", "0"}, exit.Usage, "1 to 100000"},
		{[]string{"--seed", "4294967290", "--seeds", "7"}, exit.Usage, "the evaluation's last seed is 4294967296: choose seeds below 4294967296"},
		{[]string{"--from", "none.json"}, exit.Usage, "none.json: no such file"},
		{[]string{"--from", write(t, "f.json", []byte("{}"))}, exit.Usage, "not the output of gnnsched eval -o json"},
		{[]string{"--from", write(t, "g.json", []byte(`[{"scenario": "x", "seeds": [1], "policies": [{"name": "gnn"}]}]`))}, exit.Usage,
			"x has 0 outcomes of gnn"},
		{[]string{"--from", "f.json", "--seeds", "3"}, exit.Usage, "leave one of them out"},
		{[]string{"--preferences", "blend"}, exit.Usage, `--preferences is "blend"; there are first, declared, off`},
		{[]string{"-o", "xml"}, exit.Usage, "markdown"},
		{[]string{"--checkpoint", "none"}, exit.Checkpoint, "none"},
		{[]string{"--checkpoint", write(t, "c.json", []byte("[]"))}, exit.Checkpoint, "holds no linear weights"},
		{[]string{"--checkpoint", "a=" + write(t, "c", []byte("no checkpoint"))}, exit.Checkpoint, "not a checkpoint"},
	} {
		code, stdout, stderr := run(t, append([]string{"gnnsched", "eval"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.say) || stdout != "" {
			t.Errorf("%v: exit code %d, want %d; stdout %q, stderr %q wants %q", c.args, code, c.code, stdout, stderr, c.say)
		}
	}
}

// A threshold can name a policy with a colon in its name, in double quotes. The policy can pack only
// where replicas need not be spread over all ten nodes.
func TestEvalThresholdOfGreedy(t *testing.T) {
	args := []string{
		"gnnsched", "eval", "--scenario", "aaml", "--seeds", "2", "--preferences", "off", "--policies", "kube-scheduler,greedy:pack=0.5+zones",
	}
	code, stdout, stderr := run(t, append(args, "--threshold", `aaml: "greedy:pack=0.5+zones".nodesInUse < kube-scheduler.nodesInUse`)...)
	if code != exit.OK || !strings.Contains(stdout, `PASS aaml: "greedy:pack=0.5+zones".nodesInUse < `) {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	code, _, stderr = run(t, append(args, "--threshold", `"greedy:pack=0.5+zones".nodesInUse >= 1*kube-scheduler.nodesInUse`)...)
	if code != exit.Gate {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// A printed scenario can be edited and used. Its thresholds decide the exit code.
func TestEvalScenarioFile(t *testing.T) {
	code, text, stderr := run(t, "gnnsched", "eval", "--print-scenario", "aaml")
	if code != exit.OK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	mine := strings.Replace(text, "name: aaml", "name: mine\nthresholds: [random.cpuStd > 2*kube-scheduler.cpuStd]", 1)
	file := write(t, "mine.yaml", []byte(mine))
	args := []string{"gnnsched", "eval", "--scenario", file, "--seeds", "2", "--policies", "kube-scheduler,random"}
	code, stdout, stderr := run(t, args...)
	if code != exit.OK || !strings.Contains(stdout, "PASS random.cpuStd > 2*kube-scheduler.cpuStd (") {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = run(t, append(args, "--threshold", "m*: random.cpuStd<=kube-scheduler.cpuStd")...)
	if code != exit.Gate || !strings.Contains(stdout, "FAIL m*: random.cpuStd <= ") || !strings.Contains(stderr, "1 of 2 thresholds missed") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

// traceFolder holds a trace of three nodes and a few pods.
func traceFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"openb_node_list_gpu_node.csv": "sn,cpu_milli,memory_mib,gpu,model\na,8000,65536,2,T4\nb,16000,65536,4,P100\nc,4000,65536,1,T4\n",
		"openb_pod_list_timed.csv":     "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\np0,1000,64,1,400,0,9000\np1,1000,64,1,1000,10,20000\np2,2000,64,0,0,20,500\n",
		"openb_pod_list_default.csv":   "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np0,1000,64,1,400,\np1,1000,64,1,1000,T4\np2,2000,64,0,0,\np3,2000,64,2,1000,\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestEvalOpenB(t *testing.T) {
	dir := traceFolder(t)
	for _, c := range []struct {
		args []string
		code int
		out  []string // in stdout, or in stderr where the code is not OK
	}{
		{[]string{"--scenario", "openb:default", "--policies", "fgd,gpu-gnn"}, exit.OK,
			[]string{"openb-default: pods of the openb trace, until they have requested 150% of the GPUs", "gpu-gnn"}},
		{[]string{"--scenario", "openb:default+cpu3", "--policies", "fgd,first-fit:fgd", "--metrics", "allocation95,watts100,bound130"}, exit.OK,
			[]string{"three times the pods without GPUs", "GPU allocation % at 95%", "watts at 100%", "bound % at 130%"}},
		{[]string{"--scenario", "openb:timed@70", "--policies", "fgd,running:gpu-gnn"}, exit.OK,
			[]string{"that come and go at 70% of the GPUs", "GPU hours waited", "rejected"}},
		{[]string{"--scenario", "openb:timed", "--policies", "fgd", "-o", "json"}, exit.OK, []string{`"allocation130"`, `"bound"`, `"left"`}},
		{[]string{"--scenario", "openb:default@70"}, exit.Usage, []string{"lifetimes are not known"}},
		{[]string{"--scenario", "openb:cpu100"}, exit.Usage, []string{`no pod list is called "cpu100"`}},
	} {
		code, stdout, stderr := run(t, append([]string{"gnnsched", "eval", "--log-dir", "", "--data", dir, "--seeds", "2"}, c.args...)...)
		text := stdout
		if c.code != exit.OK {
			text = stderr
		}
		for _, want := range c.out {
			if code != c.code || !strings.Contains(text, want) {
				t.Errorf("%v: exit code %d, want %d; no %q in %s", c.args, code, c.code, want, text)
			}
		}
	}
}

// A scenario can name the files of a trace, relative to its own file. Its tables and thresholds then
// have the metrics of GPUs.
func TestEvalScenarioOfTrace(t *testing.T) {
	dir := traceFolder(t)
	for name, factor := range map[string]string{"inflated": "2", "replayed": "0"} {
		file := filepath.Join(dir, name+".yaml")
		text := "name: " + name +
			"\nabout: a trace\nobjective: pack\nopenb: {nodes: openb_node_list_gpu_node.csv, pods: openb_pod_list_default.csv, factor: " + factor +
			"}\nthresholds: [fgd.gpuIdle <= 1]\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := run(t, "gnnsched", "eval", "--scenario", file, "--policies", "fgd,random", "--seeds", "2", "--all",
			"--log-dir", "")
		if code != exit.OK || !strings.Contains(stdout, "gpu idle") || !strings.Contains(stdout, "gpu stranded") ||
			!strings.Contains(stdout, "PASS fgd.gpuIdle") {
			t.Errorf("%s: exit code %d: %s%s", name, code, stdout, stderr)
		}
		if !strings.Contains(stdout, "2 paired seeds") {
			t.Errorf("%s: not resampled: %s", name, stdout)
		}
		code, stdout, stderr = run(t, "gnnsched", "eval", "--scenario", file, "--policies", "fgd,random", "--seeds", "2", "--resample=false",
			"--log-dir", "")
		if name == "inflated" {
			if code != exit.Usage || !strings.Contains(stderr, "--resample: no scenario plays a trace at its times") {
				t.Errorf("%s as recorded: exit code %d: %s", name, code, stderr)
			}
		} else if code != exit.OK || !strings.Contains(stdout, "one sample, without intervals") {
			t.Errorf("%s as recorded: exit code %d: %s%s", name, code, stdout, stderr)
		}
	}
}
