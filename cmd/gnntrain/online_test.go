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
	"gnnsched/gnn/feature"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/sim"
)

// steps returns the stream of a scheduler that places every pod on its first candidate. Each step names
// the network with the fingerprint, as if that had drawn the action.
func steps(t *testing.T, n int, network uint64) []byte {
	t.Helper()
	env, err := sim.New(run.BalanceEnv())
	if err == nil {
		err = env.Reset(1)
	}
	fatal.If(t, err)
	var b bytes.Buffer
	w, err := experience.NewWriter(&b)
	fatal.If(t, err)
	encoder := encode.New(feature.Default())
	for i := range n {
		if env.Done() {
			fatal.If(t, env.Reset(uint64(i)))
		}
		s := experience.Step{Number: uint64(i), Features: feature.Default().Hash(),
			State: encoder.Encode(env.Snapshot(), env.Pending(), env.Candidates()).Clone(), Before: env.Cost(), Network: network, Log: -1}
		env.Step(0)
		s.After = env.Cost()
		fatal.If(t, w.Write(s))
	}
	return b.Bytes()
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
		Flags: slices.Concat(runFlags(), onlineFlags(), learn.Flags()),
	}
	code = cli.RunContext(context.Background(), app, append([]string{"gnntrain", "--online"}, args...))
	return code, errs.String()
}

// The command uses the flags' hyperparameters and writes the learned network. The second run counts on
// from the steps of the first.
func TestOnline(t *testing.T) {
	c := checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 8}, rand.New(rand.NewPCG(1, 1)))
	file, events := filepath.Join(t.TempDir(), "net.safetensors"), t.TempDir()
	fatal.If(t, c.Save(file))
	stream := steps(t, 300, 0)
	for _, out := range []string{filepath.Join(t.TempDir(), "learned.safetensors"), file} {
		for _, want := range []float64{300, 600} {
			if code, errs := trainOnline(t, stream, "--init", file, "--out", out, "--events", events, "--batch-size", "16", "--update-frequency",
				"2"); code != exit.OK {
				t.Fatalf("code %d: %s", code, errs)
			}
			got, err := checkpoint.Load(out)
			fatal.If(t, err)
			if n := got.Manifest.Training["onlineSteps"]; n != want || got.Manifest.Training["onlineUpdates"] < want/2-20 {
				t.Errorf("figures %v, want %v steps", got.Manifest.Training, want)
			}
		}
	}
	figures(t, events, "online/loss", "online/reward", "online/kept_back", "online/eval_total")
	if _, err := os.Stat(file + ".online"); err != nil {
		t.Errorf("no state is left for the next trainer: %v", err)
	}
}

// A signal ends the trainer in good order while the scheduler still holds the stream open: it saves the
// network and the state.
func TestOnlineStopsAtSignal(t *testing.T) {
	c := checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 8}, rand.New(rand.NewPCG(1, 1)))
	file := filepath.Join(t.TempDir(), "net.safetensors")
	fatal.If(t, c.Save(file))
	in, out, err := os.Pipe()
	fatal.If(t, err)
	defer in.Close()
	defer out.Close() // after the trainer has ended
	stdin := os.Stdin
	os.Stdin = in
	defer func() { os.Stdin = stdin }()
	ctx, signal := context.WithCancel(t.Context())
	defer signal()
	stream := steps(t, 300, 0)
	go func() {
		_, _ = out.Write(stream) // ends when the trainer has read all but what a pipe holds
		signal()
	}()
	var errs bytes.Buffer
	app := &ucli.App{Name: "gnntrain", ErrWriter: &errs, Action: learnOnline, Flags: slices.Concat(runFlags(), onlineFlags(), learn.Flags())}
	if code := cli.RunContext(ctx, app, []string{"gnntrain", "--online", "--init", file, "--batch-size", "16", "--update-frequency",
		"2"}); code != exit.OK {
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

// An actor-critic learns from one rollout, since all steps are the first network's. The flags of its
// hyperparameters take effect, in both spellings.
func TestOnlineActorCritic(t *testing.T) {
	learned := func(args ...string) *checkpoint.Checkpoint {
		c := checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.ActorCritic, Hidden: 8},
			rand.New(rand.NewPCG(1, 1)))
		c.Manifest.Config = []byte(`{"ppo": {"rollout": 64, "targetKL": 0}}`)
		file, events := filepath.Join(t.TempDir(), "net.safetensors"), t.TempDir()
		fatal.If(t, c.Save(file))
		code, stderr := trainOnline(t, steps(t, 200, c.Fingerprint()), append([]string{"--init", file, "--events", events,
			"--guard-episodes", "2", "--tolerance", "100"}, args...)...)
		if code != exit.OK {
			t.Fatalf("code %d: %s", code, stderr)
		}
		c, err := checkpoint.Load(file)
		fatal.If(t, err)
		figures(t, events, "online/value_loss", "online/entropy", "online/approx_kl")
		return c
	}
	c := learned()
	if m := c.Manifest.Training; m["onlineUpdates"] != 1 {
		t.Errorf("figures %v", m)
	}
	slow := learned("--actor_learning_rate", "1e-9", "--critic-learning-rate", "1e-9")
	if moved := distance(slow); moved > 1e-6 {
		t.Errorf("the weights moved by %v, whatever the learning rates", moved)
	}
	if moved := distance(c); moved < 1e-4 {
		t.Errorf("the weights moved by %v", moved)
	}
}

// distance returns how far the weights are from those at the start of TestOnlineActorCritic.
func distance(c *checkpoint.Checkpoint) (most float64) {
	was := checkpoint.Random(c.Manifest.Architecture, rand.New(rand.NewPCG(1, 1)))
	for name, w := range c.Weights {
		for i, v := range w.Data {
			most = max(most, math.Abs(float64(v-was.Weights[name].Data[i])))
		}
	}
	return most
}

func TestOnlineRefuses(t *testing.T) {
	save := func(head checkpoint.Head) string {
		c := checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: head, Hidden: 8}, rand.New(rand.NewPCG(1, 1)))
		file := filepath.Join(t.TempDir(), "net.safetensors")
		fatal.If(t, c.Save(file))
		return file
	}
	good, other := save(checkpoint.DQN), save(checkpoint.ActorCritic)
	for _, c := range []struct {
		args   []string
		stream string
		code   int
		want   string
	}{
		{nil, "", exit.Usage, "--init"},
		{[]string{"--init", "none"}, "", exit.Checkpoint, "none"},
		{[]string{"--init", other, "--critic-learning-rate", "-1"}, "", exit.Usage, "critic"},
		{[]string{"--init", good, "--tolerance", "-1"}, "", exit.Usage, "tolerance"},
		{[]string{"--init", good, "--guard-episodes", "-1"}, "", exit.Usage, "guard-episodes"},
		{[]string{"--init", good, "--gamma", "2"}, "", exit.Usage, "gamma"},
		{[]string{"--init", good}, "hello", exit.Usage, "not a stream of steps"},
	} {
		if code, errs := trainOnline(t, []byte(c.stream), c.args...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%v: code %d, %s; want %d and %q", c.args, code, errs, c.code, c.want)
		}
	}
}
