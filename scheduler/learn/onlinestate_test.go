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
	"gnnsched/scheduler/experience"
)

// halves are two streams of a scheduler, which was started anew in between, and one of both with a gap
// in place of that.
func halves(t *testing.T) (first, second, both *bytes.Buffer) {
	t.Helper()
	all, err := experience.NewReader(onlineStream(t, 800))
	if err != nil {
		t.Fatal(err)
	}
	out := [3]*bytes.Buffer{{}, {}, {}}
	var writers [3]*experience.Writer
	for i := range writers {
		if writers[i], err = experience.NewWriter(out[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 800 {
		s, err := all.Next()
		if err != nil {
			t.Fatal(err)
		}
		half := i / 400
		s.Number += uint64(half) // the gap
		if err := writers[2].Write(s); err != nil {
			t.Fatal(err)
		}
		if s.Number -= uint64(half * 400); s.Number == 0 {
			t.Fatal("numbers begin with 1")
		}
		if err := writers[half].Write(s); err != nil {
			t.Fatal(err)
		}
	}
	return out[0], out[1], out[2]
}

// learned learns from a stream and returns the last network saved, as a file.
func learned(t *testing.T, o Online, stream *bytes.Buffer, start *checkpoint.Checkpoint) (last *checkpoint.Checkpoint, notes string) {
	t.Helper()
	o.Config = onlineShort()
	o.Config.DQN.TargetUpdateFrequency = 30
	o.Save = func(c *checkpoint.Checkpoint) error { last = c; return nil }
	o.Note = func(line string) { notes += line + "\n" }
	r, err := experience.NewReader(stream)
	if err == nil {
		err = o.Learn(r, start)
	}
	if err != nil {
		t.Fatal(err)
	}
	return last, notes
}

// A trainer that goes on from a stored state learns what one without a break would have: memory,
// optimiser, target network and random numbers are as they were.
func TestOnlineGoesOn(t *testing.T) {
	start := checkpoint.Random(onlineShort().architecture(), rand.New(rand.NewPCG(1, 1)))
	first, second, both := halves(t)
	want, _ := learned(t, Online{}, both, start)
	state := filepath.Join(t.TempDir(), "state")
	half, _ := learned(t, Online{State: state}, first, start)
	got, notes := learned(t, Online{State: state}, second, half)
	if got.Fingerprint() != want.Fingerprint() {
		t.Errorf("broken, learning ended elsewhere: %s", notes)
	}
	if m := got.Manifest.Training; m["onlineSteps"] != 800 || m["onlineUpdates"] != want.Manifest.Training["onlineUpdates"] {
		t.Errorf("figures %v, want those of %v", m, want.Manifest.Training)
	}

	_, second, _ = halves(t)
	without, _ := learned(t, Online{}, second, half)
	if without.Fingerprint() == want.Fingerprint() {
		t.Error("the state makes no difference")
	}
}

// A state of no use is no error, and is said to be.
func TestOnlineStateOfNoUse(t *testing.T) {
	start := checkpoint.Random(onlineShort().architecture(), rand.New(rand.NewPCG(1, 1)))
	first, _, _ := halves(t)
	state := filepath.Join(t.TempDir(), "state")
	learned(t, Online{State: state}, first, start)
	whole, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		state []byte
		start *checkpoint.Checkpoint
		want  string
	}{
		"of another network": {whole, checkpoint.Random(onlineShort().architecture(), rand.New(rand.NewPCG(2, 2))), "another network"},
		"cut off":            {whole[:len(whole)/2], start, "of no use"},
		"something else":     {[]byte("hello"), start, "of no use"},
		"as it should be":    {whole, start, "goes on from"},
	} {
		if err := os.WriteFile(state, c.state, 0o600); err != nil {
			t.Fatal(err)
		}
		first, _, _ := halves(t)
		if _, notes := learned(t, Online{State: state}, first, c.start); !strings.Contains(notes, c.want) {
			t.Errorf("%s: %q", name, notes)
		}
	}
}

// What is stored of a memory is its latest, as much as there is room for, with its priorities.
func TestNewest(t *testing.T) {
	r, g := NewReplay(5, 1), episodeGraph(t)
	for i := range 8 {
		r.Add(Transition{State: g.Clone(), Action: i})
	}
	r.Prioritise([]int{0, 1, 2, 3, 4}, []float32{5, 6, 7, 3, 4}) // as their actions
	for room, want := range map[int][]int{0: nil, 2: {6, 7}, 5: {3, 4, 5, 6, 7}, 9: {3, 4, 5, 6, 7}} {
		n := r.newest(room*size(g) + size(g)/2)
		var got []int
		for i, t := range n.transitions[:n.Len()] {
			got = append(got, t.Action)
			if p := n.tree[len(n.tree)/2+i]; p < float64(t.Action) || p > float64(t.Action)+0.01 {
				got = append(got, -1)
			}
		}
		if len(got) != len(want) || len(got) > 0 && (got[0] != want[0] || got[len(got)-1] != 7) {
			t.Errorf("room for %d: %v, want %v", room, got, want)
		}
	}
}

// Learning that goes wrong does not reach the scheduler, and goes back to what did last.
func TestOnlineKeepsBadNetworksBack(t *testing.T) {
	good, _ := learned(t, Online{}, onlineStream(t, 1500), checkpoint.Random(onlineShort().architecture(), rand.New(rand.NewPCG(1, 1))))
	held, err := NewHeldOut(smallEnv(), 4)
	if err != nil {
		t.Fatal(err)
	}
	c := onlineShort()
	c.LearningRate, c.ClipNorm = 0.5, 1e6 // which ruins any network
	var saved []*checkpoint.Checkpoint
	var progress OnlineProgress
	o := Online{
		Config: c, Guard: Guard{Held: held, Unscheduled: 1, Tolerance: 0.1}, Note: func(string) {},
		Save: func(c *checkpoint.Checkpoint) error { saved = append(saved, c); return nil }, Progress: func(p OnlineProgress) { progress = p },
	}
	r, err := experience.NewReader(onlineStream(t, 800))
	if err == nil {
		err = o.Learn(r, good)
	}
	if err != nil {
		t.Fatal(err)
	}
	if progress.KeptBack < 3 {
		t.Errorf("%d networks were kept back, %d saved", progress.KeptBack, len(saved))
	}
	best := total(t, &o.Guard, good)
	for i, k := range saved {
		if got := total(t, &o.Guard, k); got > best+o.Guard.Tolerance*o.Guard.Default {
			t.Errorf("network %d, with the score %v, was saved: the best before had %v", i, got, best)
		}
		best = min(best, total(t, &o.Guard, k))
	}
}

// After a network that does not pass, both kinds of learner are where they were.
func TestOnlineReverts(t *testing.T) {
	for _, variant := range []string{"dqn", "acdqn"} {
		c := onlinePPOConfig(t, variant)
		start := checkpoint.Random(c.architecture(), rand.New(rand.NewPCG(1, 1)))
		o := Online{Config: c}
		if err := o.begin(start); err != nil {
			t.Fatal(err)
		}
		defer o.learner.drop()
		r, err := experience.NewReader(newLive(t, start, 1000, 0))
		if err != nil {
			t.Fatal(err)
		}
		for n, updates := 0, 0; updates == 0; n++ {
			s, err := r.Next()
			if err == nil {
				updates, err = o.learner.take(s, 1, n > 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		fingerprint := func() uint64 {
			k, err := o.learner.checkpoint()
			if err != nil {
				t.Fatal(err)
			}
			return k.Fingerprint()
		}
		if fingerprint() == start.Fingerprint() {
			t.Fatalf("%s: nothing was learned", variant)
		}
		if err := o.learner.revert(); err != nil {
			t.Fatal(err)
		}
		m, err := o.learner.export()
		if err != nil || fingerprint() != start.Fingerprint() || m.Moments[0].Steps != 0 {
			t.Errorf("%s: not where it was: %+v, %v", variant, m.Moments[0], err)
		}
	}
}
