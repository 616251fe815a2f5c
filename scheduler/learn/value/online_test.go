//go:build torch

package value

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/torch"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/neural"
)

func onlineTrainer(c Config) *Online {
	c.BatchSnapshots = 8
	return &Online{Config: c, Remember: 500, Save: func(*checkpoint.Checkpoint) error { return nil }}
}

// list is a source of steps.
type list []experience.Step

func (l *list) Next() (experience.Step, error) {
	if len(*l) == 0 {
		return experience.Step{}, io.EOF
	}
	s := (*l)[0]
	*l = (*l)[1:]
	return s, nil
}

// The targets of a snapshot are what each kind waits for on average over the steps of the horizon after it, also of kinds that go or come
// meanwhile.
func TestTargetsOfAStream(t *testing.T) {
	c := smallKinds()
	c.SnapshotEvery = 4
	var a stream
	a.sums = map[uint64]float64{}
	var got []snapshot
	const steps, horizon = 60, 21 // 0.35 of 60 running pods
	for i := range steps {
		s := stepOf(uint64(i+1), float64(i))
		if i > 30 {
			s.Kinds[1].Key = 3
			s.Kinds[1].Waits = 7
		}
		got = append(got, a.take(s, c, newKindEncoder(c))...)
	}
	if want := (steps - horizon) / 4; len(got) != want {
		t.Fatalf("%d snapshots, want %d", len(got), want)
	}
	for n, s := range got {
		taken := 4*(n+1) - 1 // the step of the snapshot, from 0
		first, second := 0.0, 0.0
		for i := taken + 1; i <= taken+horizon; i++ {
			first += float64(i) / horizon
			if i > 30 && taken > 30 {
				second += 7. / horizon
			}
		}
		for k, want := range []float64{first, second} {
			if mean := math.Exp(float64(s.Targets[k])) - neural.KindOffset; math.Abs(mean-want) > 1e-3*max(want, 1) {
				t.Errorf("snapshot %d, kind %d: %v waits on average, want %v", n, k, mean, want)
			}
		}
	}
	if len(a.sums) > 8 {
		t.Errorf("%d kinds are kept", len(a.sums))
	}
}

// Missing steps count as lost within one life of an actor, and any number of actors takes a bounded part of the memory.
func TestActorsAndEpochs(t *testing.T) {
	var source list
	for _, s := range []experience.Step{
		{Actor: "a", Number: 1}, {Actor: "b", Number: 7}, {Actor: "a", Number: 2}, {Actor: "b", Number: 8},
		{Actor: "a", Number: 4}, {Actor: "b", Epoch: 1, Number: 12}, {Actor: "a", Number: 5},
	} {
		s.Kinds = stepOf(1, 2).Kinds
		source = append(source, s)
	}
	for i := range 3 * maxActors {
		s := stepOf(1, 2)
		s.Actor = fmt.Sprint(i)
		source = append(source, s)
	}
	var p Progress
	trainer := onlineTrainer(smallKinds())
	trainer.Progress = func(now Progress) { p = now }
	fatal.If(t, trainer.Learn(&source, kindNetwork(1)))
	if p.Lost != 1 || p.Steps != 7+3*maxActors || math.Abs(p.Cost-2) > 1e-9 {
		t.Errorf("%+v, want 1 of %d lost", p, 7+3*maxActors)
	}
	if len(trainer.actors) > maxActors {
		t.Errorf("%d actors are known", len(trainer.actors))
	}
}

// From random weights, a scheduler's steps alone teach each variant prices under which little more waits than under the rule price, on
// episodes that it never met; and much less than under those weights, over all variants. Networks are saved now and then, and also at the end.
func TestOnlineLearns(t *testing.T) {
	held := smallKinds()
	held.Scenarios = []string{"scarce"}
	exam, err := NewExam(held, 6)
	fatal.If(t, err)
	gained := 1.
	for _, variant := range []string{"gnn", "dqn", "acgnn", "acdqn"} {
		t.Run(variant, func(t *testing.T) {
			shipped, err := checkpoint.Shipped(variant)
			fatal.If(t, err)
			c := smallKinds()
			a := shipped.Manifest.Architecture
			c.Encoder, c.Head, c.Averaging = a.Encoder, a.Head, 0.05
			start := checkpoint.Random(c.architecture(), c.rng(playing, 1, 1))
			before, saved := torch.TensorCount(), 0
			playing := func(k *checkpoint.Checkpoint) policy.Policy {
				net, err := ready(k)
				fatal.If(t, err)
				return learningPolicy(net)(policy.Setting{})
			}
			scheduler := learntest.NewScheduler(t, "scarce", playing(start), 4000)
			var last *checkpoint.Checkpoint
			var p Progress
			o := onlineTrainer(c)
			o.Progress = func(now Progress) { p = now }
			o.Save = func(c *checkpoint.Checkpoint) error { last, scheduler.Policy = c, playing(c); saved++; return nil }
			fatal.If(t, o.Learn(scheduler, start))
			if left := torch.TensorCount() - before; left != 0 {
				t.Errorf("%d tensors are left over", left)
			}
			if p.Steps != 4000 || p.Updates < 400 || saved != p.Passed || saved < p.Updates/judgeEvery {
				t.Errorf("saved %d times, %+v", saved, p)
			}
			untrained, err := exam.Total(start)
			fatal.If(t, err)
			learned, err := exam.Total(last)
			fatal.If(t, err)
			t.Logf("untrained %.3f, learned %.3f of price; %+v", untrained, learned, p)
			if gained *= learned / untrained; learned > 1.25 {
				t.Errorf("untrained %.3f, learned %.3f of price", untrained, learned)
			}
			if m := last.Manifest.Training; m["onlineSteps"] != 4000 || m[checkpoint.OriginFigure] != start.Origin() {
				t.Errorf("figures %v", m)
			}
		})
	}
	if gained > 0.75 {
		t.Errorf("the product of what waits, learned over untrained, is %.3f", gained)
	}
}

// learnedFrom learns from some steps and returns the last network saved and the notes. state is the path of a state file; empty for none.
func learnedFrom(t *testing.T, state string, steps []experience.Step, start *checkpoint.Checkpoint) (last *checkpoint.Checkpoint, notes string) {
	t.Helper()
	last = start
	o := onlineTrainer(smallKinds())
	o.State = state
	o.Save = func(c *checkpoint.Checkpoint) error { last = c; return nil }
	o.Note = func(line string) { notes += line + "\n" }
	source := list(steps)
	fatal.If(t, o.Learn(&source, start))
	return last, notes
}

func stepsUnder(t *testing.T, n int) []experience.Step {
	t.Helper()
	rule, err := ruled("linear")
	fatal.If(t, err)
	return learntest.Steps(t, rule, n)
}

// A trainer that continues from a state file knows what the one before it knew: memory, optimiser and random numbers. A file that cannot be
// used is no error; a note says so.
func TestOnlineResumes(t *testing.T) {
	start, steps := kindNetwork(1), stepsUnder(t, 1600)
	state := filepath.Join(t.TempDir(), "state")
	half, _ := learnedFrom(t, state, steps[:800], start)
	whole, err := os.ReadFile(state)
	fatal.If(t, err)
	got, notes := learnedFrom(t, state, steps[800:], half)
	if m := got.Manifest.Training; m["onlineSteps"] != 1600 || !strings.Contains(notes, "snapshots") {
		t.Errorf("figures %v, notes %q", m, notes)
	}
	without, _ := learnedFrom(t, "", steps[800:], half)
	if without.Fingerprint() == got.Fingerprint() {
		t.Error("the state makes no difference")
	}
	fatal.If(t, os.WriteFile(state, whole, 0o600))
	if again, _ := learnedFrom(t, state, steps[800:], half); again.Fingerprint() != got.Fingerprint() {
		t.Error("the same state and steps teach another network")
	}
	for name, c := range map[string]struct {
		state []byte
		start *checkpoint.Checkpoint
		want  string
	}{
		"of another network": {whole, kindNetwork(2), "another network"},
		"cut off":            {whole[:len(whole)/2], half, "cannot be used"},
		"something else":     {[]byte("hello"), half, "cannot be used"},
		"as it should be":    {whole, half, "continues from"},
	} {
		fatal.If(t, os.WriteFile(state, c.state, 0o600))
		if _, notes := learnedFrom(t, state, steps[:100], c.start); !strings.Contains(notes, c.want) {
			t.Errorf("%s: %q", name, notes)
		}
	}
}

// A stream that breaks off still gives a network, and the error.
func TestStreamBreaksOff(t *testing.T) {
	var b bytes.Buffer
	w, err := experience.NewWriter(&b)
	fatal.If(t, err)
	for _, s := range stepsUnder(t, 400) {
		fatal.If(t, w.Write(s))
	}
	b.Truncate(b.Len() - 5)
	r, err := experience.NewReader(&b)
	fatal.If(t, err)
	saved := 0
	o := onlineTrainer(smallKinds())
	o.Save = func(*checkpoint.Checkpoint) error { saved++; return nil }
	if err := o.Learn(r, kindNetwork(1)); !errors.Is(err, io.ErrUnexpectedEOF) || saved == 0 {
		t.Errorf("%v, saved %d times", err, saved)
	}
}

// Networks learn on with the configuration of their training, at the rate with which it ended. Those on other graphs do not.
func TestOnlineConfig(t *testing.T) {
	for _, name := range checkpoint.ShippedNames() {
		k, err := checkpoint.Shipped(name)
		fatal.If(t, err)
		c, err := OnlineConfig(k)
		if kinds := k.Manifest.Architecture.Graph == checkpoint.KindsGraph; kinds != (err == nil) {
			t.Errorf("%s: %v", name, err)
		} else if kinds && (!c.architecture().Equal(k.Manifest.Architecture) || c.LearningRate != lastRate*KindDefaults().LearningRate) {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if c, err := OnlineConfig(kindNetwork(1)); err != nil || c.LearningRate != KindDefaults().LearningRate {
		t.Errorf("untrained: rate %v, %v", c.LearningRate, err)
	}
}
