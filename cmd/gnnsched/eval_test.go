package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/learn/cem"
	"gnnsched/scheduler/policy/linear"
)

func savedCheckpoint(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "mine.safetensors")
	c := checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.ActorCritic, Hidden: 8},
		rand.New(rand.NewPCG(1, 2)))
	fatal.If(t, c.Save(path))
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
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
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
		fatal.If(t, os.WriteFile(file, []byte(text), 0o600))
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

func TestTune(t *testing.T) {
	out := filepath.Join(t.TempDir(), "mine.json")
	code, stdout, errs := run(t, "gnnsched", "tune", "linear", "--scenario", "tiny", "--generations", "2", "--population", "8", "--episodes", "2",
		"--name", "mine", "--out", out)
	if code != exit.OK || stdout != "" || !strings.Contains(errs, "generation 2 of 2") {
		t.Fatalf("code %d, %q, %q", code, stdout, errs)
	}
	l, err := linear.Load(out)
	if err != nil || l.Name() != "mine" {
		t.Error(l, err)
	}
	tuning := l.Tuning
	if tuning == nil || tuning.Scenario != "tiny" || tuning.Seed != 1 || tuning.Generations != 2 || tuning.HeldOut.Episodes != 20 ||
		tuning.HeldOut.FirstSeed != 1 {
		t.Errorf("how it came about: %+v", tuning)
	}
	again := filepath.Join(t.TempDir(), "again.json")
	if code, _, errs := run(t, append(strings.Fields(tuning.Command), "--out", again)...); code != exit.OK ||
		!strings.Contains(errs, "wrote "+again+": the weights after generation 2 of 2") {
		t.Fatalf("%s: code %d, %q", tuning.Command, code, errs)
	}
	if a, b := read(t, out), read(t, again); a != b {
		t.Errorf("%s gives\n%s\nand gave\n%s", tuning.Command, b, a)
	}
	if code, _, errs := run(t, "gnnsched", "eval", "--scenario", "tiny", "--seeds", "2", "--policies", "kube-scheduler", "--checkpoint",
		"mine="+out); code != exit.OK {
		t.Errorf("evaluated: code %d, %q", code, errs)
	}
}

// Tuning on a trace as recorded has one episode, which judges its own weights. Where weights do worse than the default scoring, a warning
// names the metric and the difference, also in the file. One generation of 8 around weights that fill node after node cannot make them
// balance.
func TestTuneWarns(t *testing.T) {
	trace := "arrival,cpu_request,mem_request,lifetime\n"
	for i := range 60 {
		trace += fmt.Sprintf("%d,%d,1Gi,%d\n", i, 1+i%3, 20+i%17)
	}
	scenario := write(t, "s.yaml", []byte("name: traced\nabout: a trace\nobjective: balance\nnodes: 6\nsizes: [{weight: 1, allocatable: "+
		"{cpu: 16, memory: 64Gi, pods: 110}}]\ntrace: {file: "+write(t, "trace.csv", []byte(trace))+"}\n"))
	for _, c := range []struct {
		more    []string
		samples int
		say     string
	}{
		{nil, 10, "over 10 episodes)"},
		{[]string{"--resample=false"}, 1, "(one sample)"},
	} {
		out := filepath.Join(t.TempDir(), "out.json")
		args := append([]string{
			"gnnsched", "tune", "linear", "--scenario", scenario, "--from", "linear-pack", "--features", "zones", "--generations", "1", "--population", "8",
			"--episodes", "2", "--held-out", "10", "--out", out,
		}, c.more...)
		code, _, errs := run(t, args...)
		if code != exit.OK || !strings.Contains(errs, "warning: the tuned weights are worse than kube-scheduler in cost") ||
			!strings.Contains(errs, c.say) {
			t.Fatalf("%v: code %d, %s", c.more, code, errs)
		}
		if own := strings.Contains(errs, "these episodes have the same pods, so they are one sample"); own != (c.samples == 1) {
			t.Errorf("%v: %s", c.more, errs)
		}
		l, err := linear.Load(out)
		if err != nil || l.Tuning.HeldOut.Samples != c.samples || l.Tuning.HeldOut.Worse["cost"] == 0 {
			t.Fatalf("%v: %+v, %v", c.more, l.Tuning, err)
		}
		if flag := strings.Contains(l.Tuning.Command, "--resample=false"); flag != (c.samples == 1) {
			t.Errorf("the command is %s", l.Tuning.Command)
		}
	}
}

// interrupter is an ErrWriter that cancels a context when the text appears in it.
type interrupter struct {
	text   string
	cancel context.CancelFunc
}

func (i interrupter) Write(b []byte) (int, error) {
	if strings.Contains(string(b), i.text) {
		i.cancel()
	}
	return len(b), nil
}

// The file of a stopped run names the command that gives the same weights.
func TestTuneRecordsWhatItRan(t *testing.T) {
	stopped := func(when, out string) int {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a := app("gnnsched")
		a.Writer, a.ErrWriter = io.Discard, interrupter{when, cancel}
		return cli.RunContext(ctx, a, []string{
			"gnnsched", "tune", "linear", "--scenario", "tiny", "--generations", "9", "--population", "8", "--episodes", "1", "--out", out,
		})
	}
	out := filepath.Join(t.TempDir(), "mine.json")
	if code := stopped("generation 2 of 9", out); code != exit.Interrupted {
		t.Fatalf("code %d", code)
	}
	l := fatal.Value(linear.Load(out))(t)
	if l.Tuning.Generations != 2 || l.Tuning.HeldOut != nil {
		t.Errorf("how it came about: %+v", l.Tuning)
	}
	again := filepath.Join(t.TempDir(), "again.json")
	if code, _, errs := run(t, append(strings.Fields(l.Tuning.Command), "--out", again)...); code != exit.OK {
		t.Fatalf("%s: code %d, %q", l.Tuning.Command, code, errs)
	}
	if a, b := read(t, out), read(t, again); a != b {
		t.Errorf("%s gives\n%s\nand gave\n%s", l.Tuning.Command, b, a)
	}
	none := filepath.Join(t.TempDir(), "none.json")
	if code := stopped("tuning on tiny", none); code != exit.Interrupted {
		t.Errorf("stopped at once: code %d", code)
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("a run without a generation wrote weights")
	}
}

// Weights of features that are not tuned keep their initial values.
func TestTuneFrom(t *testing.T) {
	carried := linear.Tuned("linear-zones").Weights()
	file := filepath.Join(t.TempDir(), "start.json")
	fatal.If(t, cem.Save(file, linear.Tuned("linear-zones")))
	zeros := make([]float64, len(carried))
	for from, start := range map[string][]float64{"zero": zeros, "linear-zones": carried, file: carried} {
		out := filepath.Join(t.TempDir(), "out.json")
		args := []string{
			"--scenario", "tiny", "--generations", "1", "--population", "8", "--episodes", "1", "--held-out", "0", "--features", "used,size",
			"--from", from, "--out", out,
		}
		if code, _, errs := run(t, append([]string{"gnnsched", "tune", "linear"}, args...)...); code != exit.OK {
			t.Fatalf("from %s: code %d, %q", from, code, errs)
		}
		l, err := linear.Load(out)
		if err != nil || l.Tuning.HeldOut != nil {
			t.Fatal(l, err)
		}
		for i, w := range l.Weights() {
			name := linear.Features[i]
			if free := name == "used" || name == "size"; free == (w == start[i]) {
				t.Errorf("from %s: the weight of %s was %v and is %v", from, name, start[i], w)
			}
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text := fatal.Value(os.ReadFile(path))(t)
	return string(text)
}

func TestTuneBadInput(t *testing.T) {
	for args, want := range map[string]string{
		"linear --scenario nowhere":       "nowhere",
		"linear --scenario hetero*":       "want one",
		"linear --population 4":           "population 4",
		"linear --episodes 0":             "episodes",
		"linear --from /nowhere.json":     "nowhere.json",
		"linear --from nothing":           "there are zero, linear, linear-energy, linear-pack",
		"linear --features balance,luck":  `no feature is called "luck"`,
		"linear --held-out -1":            "--held-out",
		"linear --stop-after 31":          "--stop-after",
		"linear --out /nowhere/mine.json": "--out",
		"linear more":                     "unexpected argument",
		"liner":                           "did you mean `gnnsched tune linear`",
		"linear --wait-weight -1":         "weight",
		"linear --generations 0 --seed 1": "generations",
		"linear --objective luck":         "luck",
		"stock --strategies Guess":        "Guess",
		"stock --strategies=":             `strategy ""`,
		"stock --stop-after 91":           "to the 90",
		"stock --out /nowhere/s.yaml":     "--out",
	} {
		code, _, errs := run(t, append([]string{"gnnsched", "tune"}, strings.Fields(args)...)...)
		if code != exit.Usage || !strings.Contains(errs, want) {
			t.Errorf("%s: code %d, %q; want %q", args, code, errs, want)
		}
	}
}

// The file of tune stock names its command, is a configuration that eval plays, and reports its effect on other seeds.
func TestTuneStock(t *testing.T) {
	out := filepath.Join(t.TempDir(), "stock.yaml")
	code, _, errs := run(t, "gnnsched", "tune", "stock", "--scenario", "tiny", "--objective", "pack", "--generations", "2", "--population",
		"8", "--episodes", "2", "--held-out", "6", "--out", out)
	for _, want := range []string{"MostAllocated: generation 2 of 2", "judging on 6 other episodes", "95% interval",
		"wrote " + out + ": the best profile after 6 of 6 generations"} {
		if code != exit.OK || !strings.Contains(errs, want) {
			t.Fatalf("code %d, %s; want %q", code, errs, want)
		}
	}
	text := read(t, out)
	for _, want := range []string{"Scenario tiny, objective pack.", "Means over the 6 held-out seeds from 1 on", "unscheduled",
		"kind: KubeSchedulerConfiguration"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	again := filepath.Join(t.TempDir(), "again.yaml")
	if code, _, errs := run(t, append(strings.Fields(commandIn(t, text)), "--out", again)...); code != exit.OK || read(t, again) != text {
		t.Errorf("%s: code %d, %s\n%s\nand gave\n%s", commandIn(t, text), code, errs, read(t, again), text)
	}
	code, stdout, errs := run(t, "gnnsched", "eval", "--scenario", "tiny", "--seeds", "2", "--policies",
		"kube-scheduler,stock:"+out, "--checkpoint", "mine="+out)
	if code != exit.OK || !strings.Contains(stdout, "mine") || !strings.Contains(stdout, "stock:"+out) {
		t.Errorf("evaluated: code %d, %s%s", code, stdout, errs)
	}
}

// commandIn returns the command in the head of a configuration.
func commandIn(t *testing.T, text string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if c, ok := strings.CutPrefix(line, "#   gnnsched "); ok {
			return "gnnsched " + strings.TrimSpace(c)
		}
	}
	t.Fatalf("no command in\n%s", text)
	return ""
}

// A stopped run writes its best result so far and the command that gives it.
func TestTuneStockStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := app("gnnsched")
	a.Writer, a.ErrWriter = io.Discard, interrupter{"MostAllocated: generation 1 of 9", cancel}
	out := filepath.Join(t.TempDir(), "stock.yaml")
	if code := cli.RunContext(ctx, a, []string{"gnnsched", "tune", "stock", "--scenario", "tiny", "--strategies",
		"RequestedToCapacityRatio,MostAllocated", "--generations", "9", "--population", "8", "--episodes", "1", "--out",
		out}); code != exit.Interrupted {
		t.Fatalf("code %d", code)
	}
	text, again := read(t, out), filepath.Join(t.TempDir(), "again.yaml")
	if !strings.Contains(text, "--stop-after 10") || !strings.Contains(text, "It was not judged") {
		t.Errorf("wrote\n%s", text)
	}
	if code, _, errs := run(t, append(strings.Fields(commandIn(t, text)), "--out", again)...); code != exit.OK || read(t, again) != text {
		t.Errorf("%s: code %d, %s\n%s\nand gave\n%s", commandIn(t, text), code, errs, read(t, again), text)
	}
}

// With a record, later pods judge, and the written command repeats the run.
func TestTuneOnRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "prod.record")
	pods := filepath.Join(t.TempDir(), "pods.csv")
	text := "arrival,name,cpu_request,mem_request,lifetime\n"
	for i := range 60 {
		text += fmt.Sprintf("%d,p%d,%d,1073741824,120\n", i*10, i, 1+i%3)
	}
	fatal.If(t, os.WriteFile(pods, []byte(text), 0o600))
	nodes := filepath.Join(t.TempDir(), "nodes.csv")
	fatal.If(t, os.WriteFile(nodes, []byte("sn,cpu_milli,memory_mib,gpu,model\na,16000,65536,0,\nb,8000,65536,0,\n"), 0o600))
	if code, _, errs := run(t, "gnnsched", "convert", "--log-dir=", "--out", dir, pods, nodes); code != exit.OK {
		t.Fatalf("code %d: %s", code, errs)
	}
	out := filepath.Join(t.TempDir(), "my.json")
	code, _, errs := run(t, "gnnsched", "tune", "linear", "--trace", dir, "--generations", "2", "--population", "8", "--episodes", "2", "--held-out",
		"2", "--out", out)
	if code != exit.OK || !strings.Contains(errs, "2 later blocks are for judging") || !strings.Contains(errs, "tuning on record:") {
		t.Fatalf("code %d: %s", code, errs)
	}
	p := fatal.Value(linear.Load(out))(t)
	if c := p.Tuning.Command; !strings.Contains(c, "--trace "+exit.ShellLine(dir)) || strings.Contains(c, "--scenario") {
		t.Errorf("command %s", c)
	}
	if code, _, errs := run(t, "gnnsched", "tune", "linear", "--trace", dir, "--scenario", "mixed"); code != exit.Usage ||
		!strings.Contains(errs, "--scenario has no meaning with --trace") {
		t.Errorf("code %d: %s", code, errs)
	}
}
