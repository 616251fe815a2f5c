//go:build torch

package main

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
)

// steps returns the stream of a scheduler.
func steps(t *testing.T, n int) []byte {
	t.Helper()
	rule, err := heuristic.Find("linear")
	fatal.If(t, err)
	var b bytes.Buffer
	w, err := experience.NewWriter(&b)
	fatal.If(t, err)
	for _, s := range learntest.Steps(t, rule.New(policy.Setting{}), n) {
		fatal.If(t, w.Write(s))
	}
	return b.Bytes()
}

// network returns a network of a head with random weights, in a file.
func network(t *testing.T, graph checkpoint.Graph, head checkpoint.Head) (file string) {
	t.Helper()
	a := checkpoint.Architecture{Graph: graph, Encoder: checkpoint.MLP, Head: head, Hidden: 8}
	file = filepath.Join(t.TempDir(), "net.safetensors")
	fatal.If(t, checkpoint.Random(a, rand.New(rand.NewPCG(1, 1))).Save(file))
	return file
}

// trainOnline runs the command with a stream as its stdin.
func trainOnline(t *testing.T, stream []byte, args ...string) (code int, stderr string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stream")
	fatal.If(t, os.WriteFile(path, stream, 0o600))
	in, err := os.Open(path)
	fatal.If(t, err)
	stdin := os.Stdin
	os.Stdin = in
	defer func() { os.Stdin = stdin; in.Close() }()
	var errs bytes.Buffer
	app := &ucli.App{
		Name: "gnntrain", ErrWriter: &errs, Action: learnOnline,
		Flags: slices.Concat(runFlags(), valueFlags(), fileFlags(""), onlineFlags()),
	}
	code = cli.RunContext(context.Background(), app, append([]string{"gnntrain", "--online"}, args...))
	return code, errs.String()
}

// The command uses the flags' hyperparameters and writes the learned network. The second run counts on
// from the steps of the first.
func TestOnline(t *testing.T) {
	file, events := network(t, checkpoint.KindsGraph, checkpoint.DQN), t.TempDir()
	stream := steps(t, 1000)
	for _, out := range []string{filepath.Join(t.TempDir(), "learned.safetensors"), file} {
		for _, want := range []float64{1000, 2000} {
			if code, errs := trainOnline(t, stream, "--init", file, "--out", out, "--events", events, "--guard-episodes", "2",
				"--tolerance", "100"); code != exit.OK {
				t.Fatalf("code %d: %s", code, errs)
			}
			got, err := checkpoint.Load(out)
			fatal.If(t, err)
			if n := got.Manifest.Training["onlineSteps"]; n != want || got.Manifest.Training["onlineUpdates"] < want/8-100 {
				t.Errorf("figures %v, want %v steps", got.Manifest.Training, want)
			}
		}
	}
	figures(t, events, "online/loss", "online/cost", "online/kept_back", "online/eval_total")
	if _, err := os.Stat(file + ".online"); err != nil {
		t.Errorf("no state is left for the next trainer: %v", err)
	}
}

// A signal ends the trainer in good order while the scheduler still holds the stream open: it saves the
// network and the state.
func TestOnlineStopsAtSignal(t *testing.T) {
	file := network(t, checkpoint.KindsGraph, checkpoint.DQN)
	in, out, err := os.Pipe()
	fatal.If(t, err)
	defer in.Close()
	defer out.Close() // after the trainer has ended
	stdin := os.Stdin
	os.Stdin = in
	defer func() { os.Stdin = stdin }()
	ctx, signal := context.WithCancel(t.Context())
	defer signal()
	stream := steps(t, 1000)
	go func() {
		_, _ = out.Write(stream) // ends when the trainer has read all but what a pipe holds
		signal()
	}()
	var errs bytes.Buffer
	app := &ucli.App{Name: "gnntrain", ErrWriter: &errs, Action: learnOnline, Flags: slices.Concat(runFlags(), valueFlags(), fileFlags(""), onlineFlags())}
	if code := cli.RunContext(ctx, app, []string{"gnntrain", "--online", "--init", file, "--guard-episodes", "0"}); code != exit.OK {
		t.Fatalf("code %d: %s", code, errs.String())
	}
	got, err := checkpoint.Load(file)
	if err != nil || got.Manifest.Training["onlineSteps"] == 0 {
		t.Errorf("%v: figures %v", err, got.Manifest.Training)
	}
	if _, err := os.Stat(file + ".online"); err != nil {
		t.Errorf("no state is left for the next trainer: %v", err)
	}
}

// figures checks that the event files of a folder have these tags.
func figures(t *testing.T, events string, want ...string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(events, "events.out.tfevents.*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v in %s: %v", files, events, err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		fatal.If(t, err)
		all.Write(text)
	}
	for _, tag := range want {
		if !strings.Contains(all.String(), tag) {
			t.Errorf("no %s among the figures", tag)
		}
	}
}

// The flags take effect, in both spellings, for an actor-critic too.
func TestOnlineLearningRate(t *testing.T) {
	moved := func(args ...string) (most float64) {
		file := network(t, checkpoint.KindsGraph, checkpoint.ActorCritic)
		was, err := checkpoint.Load(file)
		fatal.If(t, err)
		if code, stderr := trainOnline(t, steps(t, 1000), append([]string{"--init", file, "--guard-episodes", "0"}, args...)...); code != exit.OK {
			t.Fatalf("code %d: %s", code, stderr)
		}
		is, err := checkpoint.Load(file)
		fatal.If(t, err)
		for name, w := range is.Weights {
			for i, v := range w.Data {
				most = max(most, math.Abs(float64(v-was.Weights[name].Data[i])))
			}
		}
		return most
	}
	if by := moved("--learning_rate", "1e-9"); by > 1e-6 {
		t.Errorf("the weights moved by %v, whatever the learning rate", by)
	}
	if by := moved("--replay-buffer-size", "64"); by < 1e-5 {
		t.Errorf("the weights moved by %v", by)
	}
}

func TestOnlineRefuses(t *testing.T) {
	good, other := network(t, checkpoint.KindsGraph, checkpoint.DQN), network(t, checkpoint.ClusterGraph, checkpoint.DQN)
	for _, c := range []struct {
		args   []string
		stream string
		code   int
		want   string
	}{
		{nil, "", exit.Usage, "--init"},
		{[]string{"--init", "none"}, "", exit.Checkpoint, "none"},
		{[]string{"--init", other}, "", exit.Usage, "only a network on the graph of kinds"},
		{[]string{"--init", good, "--tolerance", "-1"}, "", exit.Usage, "tolerance"},
		{[]string{"--init", good, "--guard-episodes", "-1"}, "", exit.Usage, "guard-episodes"},
		{[]string{"--init", good, "--learning-rate", "2"}, "", exit.Usage, "learningRate"},
		{[]string{"--init", good, "--replay-buffer-size", "2"}, "", exit.Usage, "replay-buffer-size"},
		{[]string{"--init", good}, "hello", exit.Usage, "not a stream of steps"},
	} {
		if code, errs := trainOnline(t, []byte(c.stream), c.args...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%v: code %d, %s; want %d and %q", c.args, code, errs, c.code, c.want)
		}
	}
}
