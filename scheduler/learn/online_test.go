//go:build torch

package learn

import (
	"errors"
	"io"
	"math"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/torch"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/learn/online"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy/neural"
)

func onlineShort(t *testing.T) Config {
	c := short(t, 1)
	c.Imitation.Share, c.Gamma, c.LearningRate = 0, 0.5, 1e-3
	return c
}

func onlineScore(t *testing.T, c *checkpoint.Checkpoint) run.Score {
	t.Helper()
	_, held := trainer(t, onlineShort(t))
	s, err := held.Evaluate(neural.New("x", learntest.Network(t, c), nil), false)
	fatal.If(t, err)
	return s
}

// A trainer learns even from random placements. It saves networks often, and also when the stream ends
// in the middle of a step.
func TestOnlineLearns(t *testing.T) {
	c := onlineShort(t)
	start := learntest.Weights(c.Architecture(), 1)
	start.Manifest.Training = map[string]float64{"step": 7, "onlineSteps": 100}
	before := torch.TensorCount()
	var saved []*checkpoint.Checkpoint
	var progress online.Progress
	o := onlineTrainer(t, c)
	o.Progress = func(p online.Progress) { progress = p }
	o.Save = func(c *checkpoint.Checkpoint) error { saved = append(saved, c); return c.Validate() }
	b := onlineStream(t, 3000)
	b.Truncate(b.Len() - 5)
	if err := learnFrom(t, o, b, start); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	if left := torch.TensorCount() - before; left != 0 {
		t.Errorf("%d tensors are left over", left)
	}
	const updates = (3000 - 128) / 4 // about
	if len(saved) < updates/16-5 || progress.Steps != 2999 || progress.Lost == 0 || progress.Updates < updates-50 {
		t.Errorf("saved %d times, %+v", len(saved), progress)
	}
	last := saved[len(saved)-1]
	if m := last.Manifest.Training; m["onlineSteps"] != 3099 || m["step"] != 7 {
		t.Errorf("figures %v", m)
	}
	untrained, learned := onlineScore(t, start), onlineScore(t, last)
	t.Logf("untrained %v, learned %v", untrained, learned)
	if learned.Cost > 0.8*untrained.Cost {
		t.Errorf("untrained %v, learned %v", untrained, learned)
	}
}

func onlinePPOConfig(t *testing.T, variant string) Config {
	t.Helper()
	c := tiny(t, variant)
	c.Hidden, c.Gamma, c.LearningRate, c.BatchSize, c.Imitation, c.Reward.Kind = 16, 0, 3e-3, 64, run.Imitation{}, run.PlacementReward
	c.PPO.Envs, c.PPO.Group, c.PPO.Rollout, c.PPO.TargetKL = 1, 1, 128, 0
	return c
}

// PPO learns from the steps of each network that the scheduler is given, whenever it loads it, and not
// from those of another network.
func TestOnlinePPOLearns(t *testing.T) {
	for _, variant := range []string{"acgnn", "acdqn"} {
		t.Run(variant, func(t *testing.T) {
			c := onlinePPOConfig(t, variant)
			start := learntest.Weights(c.Architecture(), 1)
			before, saved := torch.TensorCount(), 0
			const steps, lag = 12_000, 20
			scheduler := newWorking(t, start, steps, lag)
			var progress online.Progress
			o := onlineTrainer(t, c)
			o.Progress = func(p online.Progress) { progress = p }
			o.Save = func(c *checkpoint.Checkpoint) error { saved++; return scheduler.save(c) }
			fatal.If(t, learnFrom(t, o, scheduler, start))
			if left := torch.TensorCount() - before; left != 0 {
				t.Errorf("%d tensors are left over", left)
			}
			if stale := progress.Stale; progress.Steps < steps-128-lag-1 || saved < steps/(128+lag+20) || stale < saved*lag ||
				stale > saved*(lag+2) {
				t.Errorf("saved %d times, %+v", saved, progress)
			}
			last := scheduler.acting
			if scheduler.next != nil {
				last = scheduler.next
			}
			untrained, learned := onlineScore(t, start), onlineScore(t, last)
			t.Logf("untrained %v, learned %v, %+v", untrained, learned, progress)
			if learned.Cost > 0.8*untrained.Cost {
				t.Errorf("untrained %v, learned %v", untrained, learned)
			}
		})
	}
}

// In the trainer's network, the scheduler's choices have the probabilities that the scheduler recorded.
func TestOnlinePPOTakesTheRecordedProbabilities(t *testing.T) {
	c := onlinePPOConfig(t, "acgnn")
	c.PPO.Epochs, c.BatchSize = 1, 128 // one batch, before any step of the optimiser
	start := learntest.Weights(c.Architecture(), 1)
	scheduler := newWorking(t, start, 1000, 3)
	worst, updates := 0.0, 0
	o := onlineTrainer(t, c)
	o.Save = scheduler.save
	o.Progress = func(p online.Progress) { worst, updates = max(worst, math.Abs(p.Figures["approx_kl"])), p.Updates }
	fatal.If(t, learnFrom(t, o, scheduler, start))
	if updates < 4 || worst > 1e-9 {
		t.Errorf("after %d updates the divergence was %v at most", updates, worst)
	}
}

// onlineTrainer returns a run on a scheduler's steps.
func onlineTrainer(t *testing.T, c Config) *online.Trainer {
	t.Helper()
	o, err := NewOnlineTrainer(Job{Config: c})
	fatal.If(t, err)
	return o
}

// learnFrom runs a trainer on a stream.
func learnFrom(t *testing.T, o *online.Trainer, stream io.Reader, start *checkpoint.Checkpoint) error {
	t.Helper()
	r, err := experience.NewReader(stream)
	fatal.If(t, err)
	return o.Learn(r, start)
}
