//go:build torch

package learn

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
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

// halves returns the streams of a scheduler before and after it was started again, and one stream of
// both with a gap in between.
func halves(t *testing.T) (first, second, both *bytes.Buffer) {
	t.Helper()
	all, err := experience.NewReader(onlineStream(t, 800))
	fatal.If(t, err)
	out := [3]*bytes.Buffer{{}, {}, {}}
	var writers [3]*experience.Writer
	for i := range writers {
		if writers[i], err = experience.NewWriter(out[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 800 {
		s, err := all.Next()
		fatal.If(t, err)
		half := i / 400
		s.Number += uint64(half) // the gap
		fatal.If(t, writers[2].Write(s))
		if s.Number -= uint64(half * 400); s.Number == 0 {
			t.Fatal("numbers begin with 1")
		}
		fatal.If(t, writers[half].Write(s))
	}
	return out[0], out[1], out[2]
}

// learned learns from a stream and returns the last network saved and the notes. state is the path of a
// state file; empty for none.
func learned(t *testing.T, state string, stream *bytes.Buffer, start *checkpoint.Checkpoint) (last *checkpoint.Checkpoint, notes string) {
	t.Helper()
	c := onlineShort(t)
	c.DQN.TargetUpdateFrequency = 30
	o := onlineTrainer(t, c)
	o.State = state
	o.Save = func(c *checkpoint.Checkpoint) error { last = c; return nil }
	o.Note = func(line string) { notes += line + "\n" }
	fatal.If(t, learnFrom(t, o, stream, start))
	return last, notes
}

// A trainer that continues from a state file learns what one without a break would have: memory,
// optimiser, target network and random numbers are as they were.
func TestOnlineResumes(t *testing.T) {
	start := learntest.Weights(onlineShort(t).Architecture(), 1)
	first, second, both := halves(t)
	want, _ := learned(t, "", both, start)
	state := filepath.Join(t.TempDir(), "state")
	half, _ := learned(t, state, first, start)
	got, notes := learned(t, state, second, half)
	if got.Fingerprint() != want.Fingerprint() {
		t.Errorf("broken, learning ended elsewhere: %s", notes)
	}
	if m := got.Manifest.Training; m["onlineSteps"] != 800 || m["onlineUpdates"] != want.Manifest.Training["onlineUpdates"] {
		t.Errorf("figures %v, want those of %v", m, want.Manifest.Training)
	}

	_, second, _ = halves(t)
	without, _ := learned(t, "", second, half)
	if without.Fingerprint() == want.Fingerprint() {
		t.Error("the state makes no difference")
	}
}

// A state file that cannot be used is no error; a note says so.
func TestOnlineUselessState(t *testing.T) {
	start := learntest.Weights(onlineShort(t).Architecture(), 1)
	first, _, _ := halves(t)
	state := filepath.Join(t.TempDir(), "state")
	learned(t, state, first, start)
	whole, err := os.ReadFile(state)
	fatal.If(t, err)
	for name, c := range map[string]struct {
		state []byte
		start *checkpoint.Checkpoint
		want  string
	}{
		"of another network": {whole, learntest.Weights(onlineShort(t).Architecture(), 2), "another network"},
		"cut off":            {whole[:len(whole)/2], start, "cannot be used"},
		"something else":     {[]byte("hello"), start, "cannot be used"},
		"as it should be":    {whole, start, "continues from"},
	} {
		fatal.If(t, os.WriteFile(state, c.state, 0o600))
		first, _, _ := halves(t)
		if _, notes := learned(t, state, first, c.start); !strings.Contains(notes, c.want) {
			t.Errorf("%s: %q", name, notes)
		}
	}
}

// A network that learning has ruined does not reach the scheduler, and learning reverts to the last
// one that did.
func TestOnlineKeepsBadNetworksBack(t *testing.T) {
	good, _ := learned(t, "", onlineStream(t, 1500), learntest.Weights(onlineShort(t).Architecture(), 1))
	held, err := run.NewHeldOut(learntest.Env(), 4)
	fatal.If(t, err)
	c := onlineShort(t)
	c.LearningRate, c.ClipNorm = 0.5, 1e6 // which ruins any network
	var saved []*checkpoint.Checkpoint
	var progress online.Progress
	o := onlineTrainer(t, c)
	o.Guard = online.Guard{Exam: online.HeldOut{HeldOut: held, Unscheduled: 1}, Tolerance: 0.1}
	o.Save = func(c *checkpoint.Checkpoint) error { saved = append(saved, c); return nil }
	o.Progress = func(p online.Progress) { progress = p }
	fatal.If(t, learnFrom(t, o, onlineStream(t, 800), good))
	if progress.KeptBack < 3 {
		t.Errorf("%d networks were kept back, %d saved", progress.KeptBack, len(saved))
	}
	total := func(c *checkpoint.Checkpoint) float64 {
		s, err := held.Evaluate(neural.New("x", learntest.Network(t, c), nil), false)
		fatal.If(t, err)
		return s.Total(1)
	}
	best := total(good)
	for i, k := range saved {
		if got := total(k); got > best+o.Guard.Tolerance*o.Guard.Default {
			t.Errorf("network %d, with the score %v, was saved: the best before had %v", i, got, best)
		}
		best = min(best, total(k))
	}
}

// Revert brings the learners of both methods back to the network that was kept.
func TestOnlineReverts(t *testing.T) {
	for _, variant := range []string{"dqn", "acdqn"} {
		c := onlinePPOConfig(t, variant)
		start := learntest.Weights(c.Architecture(), 1)
		var f run.Figures
		l, err := c.Chosen().(online.Method).NewLearner(c.Settings, start, rand.New(rand.NewPCG(1, 2)), &f)
		if err == nil {
			err = l.Keep()
		}
		fatal.If(t, err)
		defer l.Drop()
		r, err := experience.NewReader(newWorking(t, start, 1000, 0))
		fatal.If(t, err)
		for n, updates := 0, 0; updates == 0; n++ {
			s, err := r.Next()
			if err == nil {
				updates, err = l.Take(online.Step{Step: s, Contiguous: n > 0, Reward: 1})
			}
			fatal.If(t, err)
		}
		fingerprint := func() uint64 {
			k, err := l.Checkpoint()
			fatal.If(t, err)
			return k.Fingerprint()
		}
		if fingerprint() == start.Fingerprint() {
			t.Fatalf("%s: nothing was learned", variant)
		}
		if err := l.Revert(); err != nil || fingerprint() != start.Fingerprint() {
			t.Errorf("%s: not where it was: %v", variant, err)
		}
		state, err := l.State()
		fatal.If(t, err)
		if s := state[0].(torch.TraineeState); s.Moments[0].Steps != 0 || s.Updates != 0 {
			t.Errorf("%s: the optimiser is not where it was: %+v", variant, s.Moments)
		}
	}
}
