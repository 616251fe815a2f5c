package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/plugin"
)

// trainerInPath puts a program called gnntrain into PATH and returns its path.
func trainerInPath(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gnntrain")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(path))
	return path
}

func saved(t *testing.T, a checkpoint.Architecture, objective string) string {
	t.Helper()
	c := checkpoint.Random(a, rand.New(rand.NewPCG(1, 1)))
	c.Manifest.Objective = objective
	path := filepath.Join(t.TempDir(), "net.safetensors")
	if err := c.Save(path); err != nil {
		t.Fatal(err)
	}
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
	if err := yaml.UnmarshalStrict([]byte(out), &k); err != nil {
		t.Fatal(err)
	}
	a, err := plugin.DecodeArgs(&runtime.Unknown{Raw: k.Profiles[0].PluginConfig[0].Args.Raw}, *k.Profiles[0].SchedulerName)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// stateDir returns the folder for logs and learned weights.
func stateDir() string { return filepath.Join(os.Getenv("XDG_STATE_HOME"), "gnnsched") }

func TestLearnFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	program := trainerInPath(t)
	if a := learnArgs(t, "rungnn"); a.Learn != nil {
		t.Errorf("without --learn: %+v", a.Learn)
	}
	file := saved(t, checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8}, "pack")
	a := learnArgs(t, "rungnn", "--learn", "--checkpoint", file, "--init_epsi", "1.0", "--epsi_decay=0.995", "--gamma", "0.99", "--batch_size",
		"200", "--hidden_layers", "8")
	if a.Checkpoint != file || a.Learn.InitEpsilon != 1 || a.Learn.EpsilonDecay != 0.995 || a.Learn.FinalEpsilon != 0.01 ||
		a.Learn.Objective != "pack" {
		t.Errorf("arguments %+v, learn %+v", a, a.Learn)
	}
	want := program + " --online --init " + file + " --events " + stateDir() + "/rungnn-online --gamma=0.99 --batch-size=200"
	if got := strings.Join(a.Learn.Trainer, " "); got != want {
		t.Errorf("trainer %q, want %q", got, want)
	}
	for _, command := range [][]string{{"rundqn", "--learn"}, {"rundqn", "--learn", "--hidden-layers", "16"}} {
		a := learnArgs(t, command...)
		if a.Checkpoint != stateDir()+"/rundqn-learned.safetensors" || a.Learn.Objective != "balance" {
			t.Errorf("%v: arguments %+v, learn %+v", command, a, a.Learn)
		}
		if _, err := os.Stat(a.Checkpoint); err == nil {
			t.Error("--print-config writes")
		}
	}
}

// An actor-critic learns with hyperparameters of its own.
func TestActorCriticLearns(t *testing.T) {
	t.Chdir(t.TempDir())
	program := trainerInPath(t)
	if a := learnArgs(t, "runacgnn"); a.Learn != nil {
		t.Errorf("without --learn: %+v", a.Learn)
	}
	for _, variant := range []string{"acgnn", "acdqn"} {
		a := learnArgs(t, "run"+variant, "--learn")
		if a.Checkpoint != stateDir()+"/run"+variant+"-learned.safetensors" || a.Learn.Objective != "balance" || a.Learn.InitEpsilon != 0 {
			t.Errorf("%s: arguments %+v, learn %+v", variant, a, a.Learn)
		}
	}
	a := learnArgs(t, "runacdqn", "--learn", "--hidden_layers", "16", "--actor_learning_rate", "0.002", "--critic-learning-rate=0.003", "--guard-episodes", "2")
	want := program + " --online --init " + stateDir() + "/runacdqn-learned.safetensors --events " + stateDir() +
		"/runacdqn-online --actor-learning-rate=0.002 --critic-learning-rate=0.003 --guard-episodes=2"
	if got := strings.Join(a.Learn.Trainer, " "); got != want {
		t.Errorf("trainer %q, want %q", got, want)
	}
}

func TestLearnRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	gnn := checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8}
	file := saved(t, gnn, "balance")
	gnn.Head = checkpoint.ActorCritic
	critic := saved(t, gnn, "balance")
	peers := saved(t,
		checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.ActorCritic, Hidden: 8, Features: []string{"base", "traffic"}},
		"balance")
	gpu := saved(t, checkpoint.Architecture{Graph: checkpoint.GPUGraph, Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 8},
		"gpu-allocation")
	for _, c := range []struct {
		command string
		code    int
		want    string
	}{
		{"rungnn --learn", exit.Usage, "make trainer"},
		{"runacgnn --learn --checkpoint " + peers, exit.Usage, "reads the peers of pods cannot learn"},
		{"runacgnn --learn", exit.Usage, "make trainer"},
		{"runacdqn --actor_learning_rate 0.002", exit.Usage, "add --learn"},
		{"runacgnn --learn --init_epsi 1", exit.Usage, "init-epsi"},
		{"rungnn --learn --gamma 2", exit.Usage, "gamma"},
		{"rungnn --learn --critic-learning-rate 0.002", exit.Usage, "critic-learning-rate"},
		{"rungnn --learn --policy best-fit", exit.Usage, "policy best-fit is a heuristic"},
		{"rungnn --learn --profiles gnn,dqn", exit.Usage, "--learn describes one scheduler"},
		{"rungnn --learn --config f", exit.Usage, "exclude each other"},
		{"rungnn --init-epsi 1", exit.Usage, "add --learn"},
		{"rungnn --profiles gnn --gamma 0.5", exit.Usage, "add --learn"},
		{"rungnn --learn --log-dir=", exit.Usage, "--checkpoint"},
		{"rungnn --learn --checkpoint " + critic, exit.Checkpoint, "head"},
		{"rungnn --learn --checkpoint " + gpu, exit.Checkpoint, "graph \"gpu\""},
		{"rungnn --learn --profiles gpu-gnn --checkpoint " + file, exit.Usage, "graph \"gpu\""},
		{"rungnn --learn --profiles mixed", exit.Usage, "graph \"mixed\""},
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
