//go:build torch

package learn

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/gnn/feature/featuretest"
	"gnnsched/gnn/torch"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
)

// trainer returns a run, and the evaluation that it uses.
func trainer(t *testing.T, c Config) (*run.Trainer, *run.HeldOut) {
	t.Helper()
	env := learntest.Env()
	held, err := run.NewHeldOut(env, c.EvaluateSeeds)
	fatal.If(t, err)
	tr, err := NewTrainer(Job{Config: c, Environment: env}, nil)
	fatal.If(t, err)
	tr.HeldOut = held
	return tr, held
}

// finish trains to the end and returns the checkpoint file, without what depends on the clock, and the
// score.
func finish(t *testing.T, tr *run.Trainer) ([]byte, run.Evaluation) {
	t.Helper()
	before := torch.TensorCount()
	best, score, err := tr.Train(context.Background())
	fatal.If(t, err)
	if left := torch.TensorCount() - before; left != 0 {
		t.Errorf("%d tensors are left over", left)
	}
	delete(best.Manifest.Training, "seconds")
	var b bytes.Buffer
	fatal.If(t, best.Write(&b))
	return b.Bytes(), score
}

// A job may name feature sets: the trained network reads them.
func TestTrainingWithAnotherSet(t *testing.T) {
	for _, variant := range []string{"gnn", "acdqn"} {
		c := tiny(t, variant)
		c.Features = featuretest.Names
		tr, _ := trainer(t, c)
		trained, _, err := tr.Train(context.Background())
		fatal.If(t, err)
		if d := cmp.Diff(featuretest.Names, trained.Manifest.Architecture.Features); d != "" {
			t.Errorf("%s: %s", variant, d)
		}
		if err := trained.Validate(); err != nil {
			t.Errorf("%s: %v", variant, err)
		}
	}
}

// A short run ends well above chance and above an untrained network on workloads that it never saw,
// and the same seed gives the same weights, without a teacher.
func TestTrainingLearnsAndRepeats(t *testing.T) {
	c := tiny(t, "dqn")
	c.Hidden, c.Steps, c.EvaluateEvery, c.EvaluateSeeds = 16, 8_000, 4_000, 4
	c.LearningRate, c.BatchSize, c.Imitation = 3e-3, 64, run.Imitation{}
	c.Rollouts.Envs, c.Rollouts.Horizon, c.Rollouts.Memory, c.Rollouts.Averaging = 8, 12, 4_000, 0.05
	tr, held := trainer(t, c)
	first, score := finish(t, tr)
	again, _ := trainer(t, c)
	if second, _ := finish(t, again); !bytes.Equal(first, second) {
		t.Error("the same seed gave other weights")
	}
	untrained := learntest.Network(t, learntest.Weights(c.Architecture(), 9))
	for _, p := range []policy.Policy{neural.New("untrained", untrained, nil), heuristic.NewRandom(rand.New(rand.NewPCG(1, 2)))} {
		s, err := held.Evaluate(p, false)
		fatal.If(t, err)
		t.Logf("trained %+v, %s %+v", score, p.Name(), s)
		if score.Figures["heldOutCost"] > 0.8*s.Cost {
			t.Errorf("trained %v, %s %v", score, p.Name(), s)
		}
	}
}

// When training is interrupted, it returns the best network so far and the reason.
func TestTrainingInterrupted(t *testing.T) {
	c := tiny(t, "gnn")
	c.Steps = 100_000
	tr, _ := trainer(t, c)
	ctx, cancel := context.WithCancel(context.Background())
	tr.Progress = func(run.Pace) { cancel() }
	best, _, err := tr.Train(ctx)
	if !errors.Is(err, context.Canceled) || best == nil || best.Validate() != nil {
		t.Errorf("best %v, error %v", best != nil, err)
	}
}
