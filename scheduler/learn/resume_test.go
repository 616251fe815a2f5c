//go:build torch

package learn

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/learn/run"
)

// A resumed run ends with the same bytes as an unbroken one, whether it was stopped or was killed after it
// had written its state.
func TestResumeEndsWhereTheUnbrokenRunDoes(t *testing.T) {
	rolled := tiny(t, "gnn")
	rolled.Method = byRollouts
	runs := map[string]Config{"rollouts": rolled}
	for _, variant := range variantNames() {
		runs[variant] = tiny(t, variant)
	}
	for name, c := range runs {
		t.Run(name, func(t *testing.T) {
			whole, _ := trainer(t, c)
			want, _ := finish(t, whole)

			path := filepath.Join(t.TempDir(), "state")
			ctx, stop := context.WithCancel(context.Background())
			first, _ := trainer(t, c)
			first.State = path
			first.Progress = func(p run.Pace) {
				if p.Step > c.Steps/4 {
					stop()
				}
			}
			if _, _, err := first.Train(ctx); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			second, _ := trainer(t, c)
			second.State, second.Resume = path, load(t, path)
			killed := copyAfterEvaluation(t, second, path)
			if got, _ := finish(t, second); !bytes.Equal(got, want) {
				t.Error("stopped and resumed, the run ended elsewhere")
			}
			third, _ := trainer(t, c)
			third.Resume = load(t, killed())
			if got, _ := finish(t, third); !bytes.Equal(got, want) {
				t.Error("killed and resumed, the run ended elsewhere")
			}
		})
	}
}

// tiny returns the configuration of a run of a second or two.
func tiny(t *testing.T, variant string) Config {
	t.Helper()
	c := defaults(t, variant)
	c.Hidden, c.Steps, c.BatchSize = 8, 1200, 32
	c.EvaluateEvery, c.EvaluateSeeds = 300, 2
	c.DQN.ReplayBufferSize, c.DQN.NStep = 500, 3
	c.PPO.Envs, c.PPO.Group, c.PPO.Rollout, c.Imitation.Coefficient = 4, 2, 24, 0.1
	c.Rollouts.Envs, c.Rollouts.Every, c.Rollouts.Candidates, c.Rollouts.Horizon, c.Rollouts.Memory = 4, 2, 4, 6, 100
	c.Imitation.Share = 0.4
	return c
}

// copyAfterEvaluation makes the trainer copy its state file between the second evaluation and the next,
// and returns a function that returns the copy's name.
func copyAfterEvaluation(t *testing.T, tr *run.Trainer, path string) func() string {
	t.Helper()
	evaluations, copied := 0, path+".copy"
	tr.Progress = func(run.Pace) {
		if evaluations == 1 {
			data, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(copied, data, 0o600)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	tr.Evaluated = func(run.Evaluation) { evaluations++ }
	return func() string { return copied }
}

func load(t *testing.T, path string) *run.State {
	t.Helper()
	s, err := run.LoadState(path)
	fatal.If(t, err)
	return s
}

func TestResumeRefusesAnotherRun(t *testing.T) {
	c := tiny(t, "acdqn")
	path := filepath.Join(t.TempDir(), "state")
	ctx, stop := context.WithCancel(context.Background())
	stop()
	tr, _ := trainer(t, c)
	tr.State = path
	if _, _, err := tr.Train(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	c.Gamma = 0.77
	other, _ := trainer(t, c)
	other.Resume = load(t, path)
	if _, _, err := other.Train(context.Background()); err == nil {
		t.Error("resumed with another configuration")
	}
	if _, err := run.LoadState(path + "x"); !errors.Is(err, run.ErrNoState) {
		t.Errorf("error %v", err)
	}
	fatal.If(t, os.WriteFile(path, []byte("no state"), 0o600))
	if _, err := run.LoadState(path); err == nil || errors.Is(err, run.ErrNoState) {
		t.Errorf("a broken file gives %v", err)
	}
}
