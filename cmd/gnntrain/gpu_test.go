//go:build torch

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
)

// gpuTrace writes a small trace and returns its folder.
func gpuTrace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	nodes, pods := "sn,cpu_milli,memory_mib,gpu,model\n", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
	for i := range 8 {
		nodes += fmt.Sprintf("n%d,32000,131072,4,T4\n", i)
	}
	for i := range 60 {
		pods += fmt.Sprintf("a%d,4000,8192,1,810,\nb%d,4000,8192,1,190,\nc%d,4000,8192,1,1000,\nd%d,4000,8192,0,0,\n", i, i, i, i)
	}
	for name, text := range map[string]string{"openb_node_list_gpu_node.csv": nodes, "openb_pod_list_small.csv": pods} {
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func TestTrainGPU(t *testing.T) {
	t.Chdir(t.TempDir())
	config := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(config, []byte("hidden: 8\nencoder: mlp\nhead: actor-critic\niterations: 2\nupdates: 5\nsnapshotEvery: 10\nevaluateEvery: "+
		"1\nevaluateWorkloads: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, errs := gnntrain(t, context.Background(), "gpu", "--data", gpuTrace(t), "--config", config)
	if code != exit.OK || !strings.Contains(stdout, "wrote gpu-acdqn.safetensors") {
		t.Fatalf("code %d: %s%s", code, stdout, errs)
	}
	if strings.Count(errs, "made the directory logs/gpu-acdqn; choose another with --events\n") != 1 {
		t.Errorf("the directory of the events was made silently: %s", errs)
	}
	c, err := checkpoint.Load("gpu-acdqn.safetensors")
	fatal.If(t, err)
	a, config2 := c.Manifest.Architecture, string(c.Manifest.Config)
	if a.Graph != checkpoint.GPUGraph || a.Encoder != checkpoint.MLP || a.Hidden != 8 || c.Manifest.Commit == "" ||
		!strings.Contains(config2, `"iterations":2`) || !strings.Contains(config2, `"family":["small"]`) {
		t.Errorf("%+v, %s", c.Manifest, config2)
	}
	beside, err := os.ReadFile("gpu-acdqn.typical.json")
	if err != nil || !strings.Contains(string(beside), `"gpuMilli": 190`) {
		t.Errorf("the typical pods: %s, %v", beside, err)
	}
	again := filepath.Join(t.TempDir(), "again.safetensors")
	if code, _, errs := gnntrain(t, context.Background(), "gpu", "--data", gpuTrace(t), "--typical-only", "--out", again); code != exit.OK {
		t.Fatalf("code %d: %s", code, errs)
	}
	if only, err := os.ReadFile(checkpoint.TypicalPath(again)); err != nil || string(only) != string(beside) {
		t.Errorf("the typical pods alone: %s, %v", only, err)
	}
	if _, err := os.Stat(again); err == nil {
		t.Error("--typical-only trained a network")
	}
	figures(t, "logs/gpu-acdqn", "eval/gain_over_fgd", "losses/policy_loss")
}

// An interrupted run says how to continue. When it continues, it ends with the weights of an unbroken one.
func TestTrainGPUAndResume(t *testing.T) {
	t.Chdir(t.TempDir())
	config, data := filepath.Join(t.TempDir(), "c.yaml"), gpuTrace(t)
	if err := os.WriteFile(config, []byte("hidden: 8\nencoder: mlp\niterations: 3\nupdates: 5\nsnapshotEvery: 10\nevaluateEvery: "+
		"1\nevaluateWorkloads: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	train := func(ctx context.Context, want int, say string, args ...string) {
		t.Helper()
		code, stdout, errs := gnntrain(t, ctx, append([]string{"gpu", "--data", data}, args...)...)
		if code != want || !strings.Contains(stdout+errs, say) {
			t.Fatalf("%v: code %d, want %d with %q: %s%s", args, code, want, say, stdout, errs)
		}
	}
	ctx := context.Background()
	train(ctx, exit.OK, "wrote whole.safetensors", "--config", config, "--out", "whole.safetensors")
	stopped, stop := context.WithCancel(ctx)
	stop()
	train(stopped, exit.Interrupted, "--resume", "--config", config)
	train(ctx, exit.Usage, "keeps its configuration", "--resume", "--out", "gpu-dqn.safetensors", "--seed", "9")
	train(ctx, exit.Usage, "there is no state of a run", "--resume")
	train(ctx, exit.OK, "wrote gpu-dqn.safetensors", "--resume", "--out", "gpu-dqn.safetensors")
	a, err := checkpoint.Load("whole.safetensors")
	fatal.If(t, err)
	b, err := checkpoint.Load("gpu-dqn.safetensors")
	if err != nil || a.Fingerprint() != b.Fingerprint() {
		t.Errorf("the resumed run ended with %x, the unbroken one with %x (%v)", b.Fingerprint(), a.Fingerprint(), err)
	}
	if _, err := os.Stat("gpu-dqn.safetensors.state"); !os.IsNotExist(err) {
		t.Errorf("the state of a run that is over: %v", err)
	}
}

// A network of another architecture is refused before the run writes anything.
func TestTrainGPUStart(t *testing.T) {
	t.Chdir(t.TempDir())
	file := filepath.Join(t.TempDir(), "start.safetensors")
	for _, a := range []checkpoint.Architecture{
		{Graph: checkpoint.GPUGraph, Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8},
		{Graph: checkpoint.GPUGraph, Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 24},
		{Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 24},
	} {
		fatal.If(t, checkpoint.Random(a, rand.New(rand.NewPCG(1, 1))).Save(file))
		code, _, errs := gnntrain(t, context.Background(), "gpu", "--data", gpuTrace(t), "--start", file, "--out", "out.safetensors")
		if code != exit.Usage || !strings.Contains(errs, "has the architecture") || !strings.Contains(errs, "hidden and features") {
			t.Errorf("%v: code %d, %s", a, code, errs)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("it left %v (%v)", left, err)
	}
}

func TestTrainGPUErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, empty := gpuTrace(t), t.TempDir()
	for args, say := range map[string]string{
		"":                            "there is no trace to learn on",
		"--data " + empty:             "holds no openb_pod_list_*.csv",
		"--data " + dir + " more":     "unexpected argument",
		"--data " + dir + " --seed 0": "seed is 0: choose 1 to 1073741823",
		"--data " + dir + " --config nowhere.yaml":                           "nowhere.yaml",
		"--data " + dir + " --pods " + dir + "/openb_node_list_gpu_node.csv": "openb_node_list_gpu_node.csv",
	} {
		code, _, errs := gnntrain(t, context.Background(), append([]string{"gpu"}, strings.Fields(args)...)...)
		if code != exit.Usage || !strings.Contains(errs, say) {
			t.Errorf("%q: code %d, %s, want %q", args, code, errs, say)
		}
	}
	if code, stdout, _ := gnntrain(t, context.Background(), "gpu", "--print-config", "--seed", "7"); code != exit.OK ||
		!strings.Contains(stdout, "seed: 7") {
		t.Errorf("code %d: %s", code, stdout)
	}
}
