//go:build torch

package value

import (
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/torch"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/online"
	"gnnsched/scheduler/learn/run"
)

// onlineTrainer returns a trainer of networks of a configuration on a cluster like that of lasting, with its guard.
func onlineTrainer(c Config, rate float64) *online.Trainer {
	_, w := trace()
	c.BatchNodes, c.BatchSnapshots, c.Averaging = onlineBatch, onlineSnapshots, onlineAveraging
	return &online.Trainer{
		Settings: run.Settings{Seed: 1, LearningRate: rate, ClipNorm: 10, Reward: run.Reward{Kind: run.StepReward, Scale: 1}},
		Method:   Online{Config: c, ReplayBytes: 8 << 20, UpdateFrequency: 4},
		Guard:    online.Guard{Exam: &Exam{Config: c, Typical: TypicalPods([]Workload{w}), Episodes: 4}, Tolerance: 0.1, Patience: 4},
		Save:     func(*checkpoint.Checkpoint) error { return nil },
	}
}

// learnOnline lets a network learn from a stream with departures. It returns the last network saved, and the progress.
func learnOnline(t *testing.T, o *online.Trainer, start *checkpoint.Checkpoint,
	steps int) (last *checkpoint.Checkpoint, p online.Progress) {
	t.Helper()
	_, c := lasting()
	s := newStream(t, c, 5, steps)
	s.random = 0.05
	if err := s.load(start); err != nil {
		t.Fatal(err)
	}
	last = start
	o.Save = func(k *checkpoint.Checkpoint) error { last = k; return s.load(k) }
	o.Progress = func(now online.Progress) { p = now }
	o.Note = func(line string) { t.Log(line) }
	if err := o.Learn(s, start); err != nil {
		t.Fatal(err)
	}
	return last, p
}

// From random weights a network gets better on a stream with departures: in the guard's episodes, and in its allocation over
// time on other streams.
func TestOnlineLearnsWithDepartures(t *testing.T) {
	for _, head := range []checkpoint.Head{checkpoint.DQN, checkpoint.ActorCritic} {
		t.Run(string(head), func(t *testing.T) {
			before := torch.TensorCount()
			c, env := lasting()
			c.Hidden, c.Head, c.Temperature = 16, head, 0.1
			start := checkpoint.Random(c.architecture(), rand.New(rand.NewPCG(4, 4)))
			o := onlineTrainer(c, 3e-3)
			last, p := learnOnline(t, o, start, 3000)
			if left := torch.TensorCount() - before; left != 0 {
				t.Errorf("%d tensors are left over", left)
			}
			was, now := steadyAllocation(t, env, start), steadyAllocation(t, env, last)
			first, err := o.Guard.Exam.Total(start)
			if err != nil {
				t.Fatal(err)
			}
			total, err := o.Guard.Exam.Total(last)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("allocation over time %.4f, then %.4f; guard's score %.4f, then %.4f; %+v", was, now, first, total, p)
			if p.Updates < 500 || now < was+0.01 || total > first {
				t.Errorf("allocation over time %.4f, then %.4f; guard's score %.4f, then %.4f; %+v", was, now, first, total, p)
			}
		})
	}
}

// A trained network that goes on learning on a stream with departures does not fall below its start by more than the
// guard tolerates: no network that does reaches the scheduler, not even with a high learning rate. At its own rate its allocation over
// time does not fall either, beyond chance.
func TestOnlineGuardHolds(t *testing.T) {
	start, err := checkpoint.Shipped("gpu-gnn")
	if err != nil {
		t.Fatal(err)
	}
	c, rate, err := ContinuedBy(start)
	if err != nil {
		t.Fatal(err)
	}
	_, env := lasting()
	for _, x := range []struct{ rate, tolerance, falls float64 }{{rate, 0.1, 0.02}, {0.3, 0, 1}} {
		o := onlineTrainer(c, x.rate)
		o.Guard.Tolerance = x.tolerance
		last, p := learnOnline(t, o, start, 1500)
		total := func(k *checkpoint.Checkpoint) float64 {
			v, err := o.Guard.Exam.Total(k)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		was, now, first, then := steadyAllocation(t, env, start), steadyAllocation(t, env, last), total(start), total(last)
		t.Logf("%+v: allocation over time %.4f, then %.4f; guard's score %.4f, then %.4f; %+v", x, was, now, first, then, p)
		if p.Updates < 100 || then > first+x.tolerance*o.Guard.Default || now < was-x.falls {
			t.Errorf("%+v: allocation over time %.4f, then %.4f; guard's score %.4f, then %.4f; %+v", x, was, now, first, then, p)
		}
	}
}

// The next trainer continues from the state: memory, optimiser and weights.
func TestOnlineContinues(t *testing.T) {
	c, _ := lasting()
	start := checkpoint.Random(c.architecture(), rand.New(rand.NewPCG(4, 4)))
	o := onlineTrainer(c, 1e-3)
	o.State = filepath.Join(t.TempDir(), "state")
	last, _ := learnOnline(t, o, start, 800)
	notes := ""
	next := onlineTrainer(c, 1e-3)
	next.State, next.Note = o.State, func(line string) { notes += line }
	var none empty
	if err := next.Learn(none, last); err != nil || !strings.Contains(notes, "continues from") || !strings.Contains(notes, "transitions") {
		t.Errorf("%v: %s", err, notes)
	}
	other := checkpoint.Random(c.architecture(), rand.New(rand.NewPCG(5, 5)))
	notes = ""
	if err := next.Learn(none, other); err != nil || !strings.Contains(notes, "another network") {
		t.Errorf("%v: %s", err, notes)
	}
}

// empty is a source without steps.
type empty struct{}

func (empty) Next() (s experience.Step, err error) { return s, io.EOF }
