//go:build torch

package value

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/torch"
	"gnnsched/internal/fatal"
)

// A resumed run ends with the same bytes as an unbroken one, whether it was stopped between two
// evaluations or was killed after it had written its state.
func TestResumeEndsWhereTheUnbrokenRunDoes(t *testing.T) {
	for _, head := range []checkpoint.Head{checkpoint.DQN, checkpoint.ActorCritic} {
		t.Run(string(head), func(t *testing.T) {
			c := resumable(head)
			want := finish(t, trainer(c))
			for _, after := range []int{1, 3, 5} { // in the imitation, at its end, and when old episodes are forgotten
				path := stopped(t, c, after)
				second := trainer(c)
				second.State, second.Resume = path, load(t, path)
				killed := path + ".killed"
				second.Progress = func(p Pace) {
					if p.Iteration == 6 { // after the evaluation in step 4 or at the start
						copyFile(t, path, killed)
					}
				}
				if !bytes.Equal(finish(t, second), want) {
					t.Errorf("stopped after %d iterations and resumed, the run ended elsewhere", after)
				}
				third := trainer(c)
				third.Resume = load(t, killed)
				if !bytes.Equal(finish(t, third), want) {
					t.Errorf("killed and resumed, the run ended elsewhere")
				}
			}
		})
	}
}

// resumable returns the configuration of a run whose best network is not its first.
func resumable(head checkpoint.Head) Config {
	c := small()
	c.Head, c.Iterations, c.EvaluateEvery, c.LearningRate = head, 7, 2, 1e-2
	return c
}

func trainer(c Config) *Trainer {
	nodes, w := trace()
	return &Trainer{Config: c, Nodes: nodes, Family: []Workload{w}}
}

// finish trains to the end and returns the file of the best network with the weights that the run ended
// with, without what depends on the clock.
func finish(t *testing.T, tr *Trainer) []byte {
	t.Helper()
	if tr.State == "" {
		tr.State = filepath.Join(t.TempDir(), "state")
	}
	before := torch.TensorCount()
	best, _, err := tr.Train(context.Background())
	fatal.If(t, err)
	if left := torch.TensorCount() - before; left != 0 {
		t.Errorf("%d tensors are left over", left)
	}
	delete(best.Manifest.Training, "seconds")
	var b bytes.Buffer
	fatal.If(t, best.Write(&b))
	var last torch.TraineeState
	fatal.If(t, readFile(tr.State, nil, &last))
	path := filepath.Join(t.TempDir(), "weights")
	fatal.If(t, writeFile(path, last))
	weights, err := os.ReadFile(path)
	fatal.If(t, err)
	return slices.Concat(b.Bytes(), weights)
}

// stopped interrupts a run in an iteration and returns its state file.
func stopped(t *testing.T, c Config, iteration int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state")
	ctx, stop := context.WithCancel(context.Background())
	tr := trainer(c)
	tr.State = path
	tr.Progress = func(p Pace) {
		if p.Iteration == iteration {
			stop()
		}
	}
	if _, _, err := tr.Train(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if s := load(t, path); s.Step != iteration {
		t.Fatalf("stopped after %d iterations, want %d", s.Step, iteration)
	}
	return path
}

func load(t *testing.T, path string) *State {
	t.Helper()
	s, err := LoadState(path)
	fatal.If(t, err)
	return s
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestResumeRefusesAnotherRun(t *testing.T) {
	c := resumable(checkpoint.DQN)
	path := stopped(t, c, 1)
	for say, change := range map[string]func(*Trainer){
		"another configuration": func(tr *Trainer) { tr.Config.LearningRate *= 2 },
		"other nodes or pods":   func(tr *Trainer) { tr.Nodes[3].MilliCPU++ },
	} {
		tr := trainer(c)
		tr.Resume = load(t, path)
		change(tr)
		if _, _, err := tr.Train(context.Background()); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%v, want %q", err, say)
		}
	}
}

// A snapshot of a damaged or foreign state file is an error.
func TestCheckSnapshots(t *testing.T) {
	c := small()
	taken, _, _ := record(t, c)
	fatal.If(t, c.check(taken))
	for name, spoil := range map[string]func(*snapshot){
		"no nodes":       func(s *snapshot) { s.Nodes, s.Targets = nil, nil },
		"no targets":     func(s *snapshot) { s.Targets = nil },
		"no placement":   func(s *snapshot) { s.Before = append(s.Before, s.Nodes[0]) },
		"choice":         func(s *snapshot) { s.Teacher = 99 },
		"features":       func(s *snapshot) { s.Nodes = slices.Clone(s.Nodes); s.Nodes[0].X = s.Nodes[0].X[1:] },
		"cluster's ones": func(s *snapshot) { s.Cluster = nil },
	} {
		bad := slices.Clone(taken)
		spoil(&bad[len(bad)-1])
		if c.check(bad) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if c.check(nil) == nil {
		t.Error("an episode without snapshots is accepted")
	}
}
