//go:build torch

package learn

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gnnsched/gnn/checkpoint"
)

// A run that is stopped, and one that is killed after its state was stored, end with the bytes
// of an unbroken one.
func TestResumeEndsWhereTheUnbrokenRunDoes(t *testing.T) {
	for _, variant := range Variants {
		t.Run(variant, func(t *testing.T) {
			c := tiny(t, variant)
			whole, _ := trainer(t, c)
			want := finish(t, whole, context.Background())

			path := filepath.Join(t.TempDir(), "state")
			ctx, stop := context.WithCancel(context.Background())
			first, _ := trainer(t, c)
			first.State = path
			first.Progress = func(p Progress) {
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
			if got := finish(t, second, context.Background()); !bytes.Equal(got, want) {
				t.Error("stopped and resumed, the run ended elsewhere")
			}
			third, _ := trainer(t, c)
			third.Resume = load(t, killed())
			if got := finish(t, third, context.Background()); !bytes.Equal(got, want) {
				t.Error("killed and resumed, the run ended elsewhere")
			}
		})
	}
}

// tiny is a run of a second or two of any variant.
func tiny(t *testing.T, variant string) Config {
	t.Helper()
	c, err := Defaults(variant)
	if err != nil {
		t.Fatal(err)
	}
	c.Hidden, c.Steps, c.BatchSize, c.EvaluateEvery, c.EvaluateSeeds = 8, 1200, 32, 300, 2
	c.DQN.ReplayBufferSize, c.DQN.NStep = 500, 3
	c.PPO.Envs, c.PPO.Group, c.PPO.Rollout, c.Imitation.Coefficient = 4, 2, 24, 0.1
	c.Imitation.Share = 0.4
	return c
}

// finish trains to the end and returns the checkpoint file, less what depends on the clock.
func finish(t *testing.T, tr *Trainer, ctx context.Context) []byte {
	t.Helper()
	var last *checkpoint.Checkpoint
	best, _, err := tr.Train(ctx)
	if err != nil {
		t.Fatal(err)
	}
	last = best
	delete(last.Manifest.Training, "seconds")
	var b bytes.Buffer
	if err := last.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// copyAfterEvaluation copies the state that the trainer's second evaluation leaves.
func copyAfterEvaluation(t *testing.T, tr *Trainer, path string) func() string {
	t.Helper()
	evaluations, copied := 0, path+".copy"
	tr.Progress = func(Progress) {
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
	tr.Evaluated = func(int, Score) { evaluations++ }
	return func() string { return copied }
}

func load(t *testing.T, path string) *State {
	t.Helper()
	s, err := LoadState(path)
	if err != nil {
		t.Fatal(err)
	}
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
		t.Error("went on with another configuration")
	}
	if _, err := LoadState(path + "x"); !errors.Is(err, ErrNoState) {
		t.Errorf("error %v", err)
	}
	if err := os.WriteFile(path, []byte("no state"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadState(path); err == nil || errors.Is(err, ErrNoState) {
		t.Errorf("a broken file gives %v", err)
	}
}
