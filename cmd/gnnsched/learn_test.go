package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/plugin"
	"gnnsched/workload/record"
)

// trainerInPath puts a program called gnntrain into PATH and returns its path.
func trainerInPath(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gnntrain")
	fatal.If(t, os.WriteFile(path, []byte("#!/bin/sh\nexit 1\n"), 0o700))
	t.Setenv("PATH", filepath.Dir(path))
	return path
}

func saved(t *testing.T, a checkpoint.Architecture, objective string) string {
	t.Helper()
	c := checkpoint.Random(a, rand.New(rand.NewPCG(1, 1)))
	c.Manifest.Objective = objective
	path := filepath.Join(t.TempDir(), "net.safetensors")
	fatal.If(t, c.Save(path))
	return path
}

// learnArgs prints the configuration of a command line and decodes the plugin's arguments.
func learnArgs(t *testing.T, args ...string) plugin.Args {
	t.Helper()
	code, out, errs := run(t, append(args, "--print-config")...)
	if code != exit.OK {
		t.Fatalf("%v: code %d: %s", args, code, errs)
	}
	var k schedulerconfig.KubeSchedulerConfiguration
	fatal.If(t, yaml.UnmarshalStrict([]byte(out), &k))
	return fatal.Value(plugin.DecodeArgs(&runtime.Unknown{Raw: k.Profiles[0].PluginConfig[0].Args.Raw}, *k.Profiles[0].SchedulerName))(t)
}

// stateDir returns the folder for logs and learned weights.
func stateDir() string { return filepath.Join(os.Getenv("XDG_STATE_HOME"), "gnnsched") }

func TestLearnFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	program := trainerInPath(t)
	if a := learnArgs(t, "rungnn"); a.Learn != nil {
		t.Errorf("without --learn: %+v", a.Learn)
	}
	file := saved(t, checkpoint.Architecture{Graph: checkpoint.KindsGraph, Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8}, "waiting")
	a := learnArgs(t, "rungnn", "--learn", "--checkpoint", file, "--init_epsi", "1.0", "--epsi_decay=0.995", "--learning_rate", "0.001",
		"--replay_buffer_size", "2000", "--hidden_layers", "8", "--guard-episodes", "2")
	if a.Checkpoint != file || a.Learn.InitEpsilon != 1 || a.Learn.EpsilonDecay != 0.995 || a.Learn.FinalEpsilon != 0.01 {
		t.Errorf("arguments %+v, learn %+v", a, a.Learn)
	}
	want := program + " --online --init " + file + " --events " + stateDir() + "/rungnn-online --learning-rate=0.001 --replay-buffer-size=2000" +
		" --guard-episodes=2"
	if got := strings.Join(a.Learn.Trainer, " "); got != want {
		t.Errorf("trainer %q, want %q", got, want)
	}
	for _, command := range [][]string{{"rundqn", "--learn"}, {"runacgnn", "--learn"}, {"runacdqn", "--learn", "--hidden-layers", "8"}} {
		a := learnArgs(t, command...)
		if a.Checkpoint != stateDir()+"/"+command[0]+"-learned.safetensors" || a.Learn.InitEpsilon != 0.1 {
			t.Errorf("%v: arguments %+v, learn %+v", command, a, a.Learn)
		}
		if _, err := os.Stat(a.Checkpoint); err == nil {
			t.Error("--print-config writes")
		}
	}
}

func TestLearnRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	gnn := checkpoint.Architecture{Graph: checkpoint.KindsGraph, Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8}
	file := saved(t, gnn, "waiting")
	gnn.Head = checkpoint.ActorCritic
	critic := saved(t, gnn, "waiting")
	other := saved(t, checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8}, "balance")
	gpu := saved(t, checkpoint.Architecture{Graph: checkpoint.GPUGraph, Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 8},
		"gpu-allocation")
	for _, c := range []struct {
		command string
		code    int
		want    string
	}{
		{"rungnn --learn", exit.Usage, "make trainer"},
		{"rungnn --learn --checkpoint " + other, exit.Checkpoint, "only a network on the graph of kinds"},
		{"runacgnn --learn", exit.Usage, "make trainer"},
		{"runacdqn --learning_rate 0.002", exit.Usage, "add --learn"},
		{"rungnn --learn --learning-rate 2", exit.Usage, "learningRate"},
		{"rungnn --learn --gamma 2", exit.Usage, "gamma"},
		{"rungnn --learn --policy best-fit", exit.Usage, "policy best-fit is a heuristic"},
		{"rungnn --learn --profiles gnn,dqn", exit.Usage, "--learn describes one scheduler"},
		{"rungnn --learn --config f", exit.Usage, "exclude each other"},
		{"rungnn --init-epsi 1", exit.Usage, "add --learn"},
		{"rungnn --profiles gnn --learning-rate 0.5", exit.Usage, "add --learn"},
		{"rungnn --learn --log-dir=", exit.Usage, "--checkpoint"},
		{"rungnn --learn --checkpoint " + critic, exit.Checkpoint, "head"},
		{"rungnn --learn --checkpoint " + gpu, exit.Checkpoint, "only a network on the graph of kinds"},
		{"rungnn --learn --profiles gpu-gnn --checkpoint " + file, exit.Usage, "only a network on the graph of kinds"},
		{"rungnn --learn --profiles fgd", exit.Usage, "heuristic"},
		{"runacgnn --learn --checkpoint " + file, exit.Checkpoint, "head"},
		{"rungnn --learn --checkpoint " + file + " --hidden-layers 32", exit.Usage, "has 8"},
		{"rungnn --learn --hidden-layers 2", exit.Usage, "outside"},
		{"rungnn --learn --checkpoint " + write(t, "bad", []byte("x")), exit.Checkpoint, "damaged"},
	} {
		t.Setenv("PATH", "")
		code, out, errs := run(t, append(strings.Fields(c.command), "--print-config")...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: code %d, %q; want %d and %q", c.command, code, errs, c.code, c.want)
		}
	}
	trainerInPath(t)
	for _, bad := range []string{"--init-epsi=1.1", "--epsi-decay=2"} {
		if code, _, errs := run(t, "rungnn", "--learn", bad, "--print-config"); code != exit.Usage || !strings.Contains(errs, "psilon") {
			t.Errorf("%s: code %d, %q", bad, code, errs)
		}
	}
}

// asProgram is the environment variable that makes the test's binary the program.
const asProgram = "GNNSCHED_TEST_PROGRAM"

// TestMain makes the test's binary the program if asProgram is set or a worker that a test started calls it: else each would run all tests.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" || slices.Contains(os.Args, "--child") {
		main()
		return
	}
	state, err := os.MkdirTemp("", "gnnsched-state-") // where commands log by default
	if err == nil {
		err = os.Setenv("XDG_STATE_HOME", state)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(state) // of a test
	os.Exit(code)
}

var scaleOut = flag.Duration("scaleout", 10*time.Second, "how long TestScaleOut kills workers")

// program returns a command of gnnsched. It is killed when the test ends.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path := fatal.Value(os.Executable())(t)
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	t.Cleanup(func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd
}

// listening starts a queue and returns its URL.
func listening(t *testing.T, dir string) string {
	t.Helper()
	cmd := program(t, "work", "--listen", "127.0.0.1:0", "--slots", "0", "--queue", dir, "--log-dir", "")
	out := fatal.Value(cmd.StderrPipe())(t)
	fatal.If(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "url="); ok {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			url, _, _ = strings.Cut(url, " ")
			return url
		}
	}
	t.Fatal("the queue did not start")
	return ""
}

// Half of eight workers are killed again and again, and the evaluation once. Its output is that of one process to the last byte.
func TestScaleOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url := listening(t, dir)
	workers := make([]*exec.Cmd, 8)
	start := func(i int) {
		workers[i] = program(t, "work", "--connect", url, "--slots", "1", "--queue", dir, "--log-dir", "")
		fatal.If(t, workers[i].Start())
	}
	for i := range workers {
		start(i)
	}
	evaluation := []string{"eval", "--scenario", "mixed,hetero80,traffic", "--policies", "kube-scheduler,gnn,greedy:balance", "--seeds", "6",
		"-o", "json"}
	want, err := program(t, evaluation...).Output()
	fatal.If(t, err)
	away := append(evaluation, "--workers", url, "--queue", dir)
	rng := rand.New(rand.NewPCG(1, 1))
	runs, kills := 0, 0
	for begin := time.Now(); runs == 0 || time.Since(begin) < *scaleOut; runs++ {
		var got, said bytes.Buffer
		run := program(t, away...)
		run.Stdout, run.Stderr = &got, &said
		fatal.If(t, run.Start())
		if runs == 0 { // it goes on where it was
			time.Sleep(time.Second)
			_ = run.Process.Kill()
			_ = run.Wait()
			got.Reset()
			run = program(t, away...)
			run.Stdout, run.Stderr = &got, &said
			fatal.If(t, run.Start())
		}
		ended := make(chan error, 1)
		go func() { ended <- run.Wait() }()
		for done := false; !done; {
			select {
			case err := <-ended:
				if done = true; err != nil {
					t.Fatalf("%v: %s", err, said.String())
				}
			case <-time.After(time.Second):
				if time.Since(begin) > *scaleOut {
					continue // the last run comes to its end in peace
				}
				for _, i := range rng.Perm(len(workers))[:len(workers)/2] {
					_ = workers[i].Process.Kill()
					_ = workers[i].Wait()
					start(i)
					kills++
				}
			}
		}
		if d := cmp.Diff(string(want), got.String()); d != "" {
			t.Fatalf("run %d: %s", runs+1, d)
		}
	}
	t.Logf("%d runs, %d workers killed", runs, kills)
}

// A comparison on two processes, with profiles of every kind of file, is that of one to the last byte. With
// --html, too: what the page shows is played here.
func TestCompareOnWorkers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	net, err := checkpoint.Shipped("acdqn")
	if err == nil {
		err = net.Save(filepath.Join(dir, "my.safetensors"))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "prices.yaml"), []byte("nodes: {m: 0.5}"), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "stock.yaml"), []byte(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
`), 0o600)
	}
	fatal.If(t, err)
	const t0 = 1_700_000_000_000
	w := fatal.Value(record.Create(filepath.Join(dir, "prod.record"), record.Options{}))(t)
	for i := range 3 {
		w.Node(record.Node{
			Name: fmt.Sprint("node-", i), From: t0, MilliCPU: 8000, Memory: 32 << 30, Pods: 110, Labels: `{"node.kubernetes.io/instance-type":"m"}`,
		})
	}
	for i := range int64(25) {
		at := t0 + i*10_000
		w.Pod(record.Pod{UID: fmt.Sprint(i), Namespace: "shop", Name: fmt.Sprint("web-", i), MilliCPU: 1000 * (1 + i%3), Memory: 1 << 30,
			Arrived: at, Bound: at + 500, Ended: at + 90_500, End: record.Succeeded, Node: fmt.Sprint("node-", i%3)})
	}
	w.Run(record.Run{ID: "1", Source: "live", From: t0, To: t0 + 600_000})
	fatal.Value(w.Close())(t)
	linear, err := filepath.Abs("../../scheduler/policy/linear/linear.json")
	fatal.If(t, err)
	compare := func(more ...string) string {
		cmd := program(t, slices.Concat([]string{
			"compare", "--seeds", "2", "--prices", "prices.yaml", "--checkpoint", "my.safetensors",
			"--checkpoint", "weights=" + linear, "--checkpoint", "stock.yaml", "-o", "json", "--from", "2023-11-14T22:14:00Z", "--queue", "queue",
		}, more, []string{"prod.record"})...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			t.Fatalf("%v: %s", more, exit.Stderr)
		}
		return string(out)
	}
	for _, more := range [][]string{nil, {"--html", "page.html"}} {
		want := compare(more...)
		if got := compare(append(more, "--workers", "2")...); got != want {
			t.Error(cmp.Diff(want, got))
		}
	}
}

// An evaluation on two processes records the same as on one: frames, decisions and waiting times.
func TestEvalHTMLOnWorkers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	play := func(more ...string) string {
		cmd := program(t, slices.Concat([]string{
			"eval", "--scenario", "mixed,tiny", "--policies", "kube-scheduler,gnn,acdqn,greedy:balance", "--seeds", "2",
			"--queue", "queue", "-o", "json",
		}, more)...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			t.Fatalf("%v: %s", more, exit.Stderr)
		}
		return string(out)
	}
	want := play("--html", "here.html")
	if got := play("--html", "away.html", "--workers", "2"); got != want {
		t.Error(cmp.Diff(want, got))
	}
	var all []struct{ Observed eval.Observed }
	fatal.If(t, json.Unmarshal([]byte(want), &all))
	for _, c := range []string{"kube-scheduler", "gnn", "acdqn"} {
		frames, decisions, waits := 0, 0, 0
		for _, x := range all {
			frames += each.Count(x.Observed.Frames, func(f eval.Frame) bool { return f.Contender == c })
			decisions += each.Count(x.Observed.Decisions, func(d eval.Decision) bool { return d.Contender == c })
			waits += each.Count(x.Observed.Waits, func(w eval.Waits) bool { return w.Contender == c })
		}
		if min(frames, decisions, waits) < 8 {
			t.Errorf("%d frames, %d decisions and %d waits of %s", frames, decisions, waits, c)
		}
	}
}
