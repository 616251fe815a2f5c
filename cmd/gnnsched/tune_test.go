package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/learn/cem"
	"gnnsched/scheduler/policy/linear"
)

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
	l, err := linear.Load(out)
	if err != nil {
		t.Fatal(err)
	}
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
	if err := cem.Save(file, linear.Tuned("linear-zones")); err != nil {
		t.Fatal(err)
	}
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
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(pods, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	nodes := filepath.Join(t.TempDir(), "nodes.csv")
	if err := os.WriteFile(nodes, []byte("sn,cpu_milli,memory_mib,gpu,model\na,16000,65536,0,\nb,8000,65536,0,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := run(t, "gnnsched", "convert", "--log-dir=", "--out", dir, pods, nodes); code != exit.OK {
		t.Fatalf("code %d: %s", code, errs)
	}
	out := filepath.Join(t.TempDir(), "my.json")
	code, _, errs := run(t, "gnnsched", "tune", "linear", "--trace", dir, "--generations", "2", "--population", "8", "--episodes", "2", "--held-out",
		"2", "--out", out)
	if code != exit.OK || !strings.Contains(errs, "2 later blocks are for judging") || !strings.Contains(errs, "tuning on record:") {
		t.Fatalf("code %d: %s", code, errs)
	}
	p, err := linear.Load(out)
	if err != nil {
		t.Fatal(err)
	}
	if c := p.Tuning.Command; !strings.Contains(c, "--trace "+exit.ShellLine(dir)) || strings.Contains(c, "--scenario") {
		t.Errorf("command %s", c)
	}
	if code, _, errs := run(t, "gnnsched", "tune", "linear", "--trace", dir, "--scenario", "mixed"); code != exit.Usage ||
		!strings.Contains(errs, "--scenario has no meaning with --trace") {
		t.Errorf("code %d: %s", code, errs)
	}
}
