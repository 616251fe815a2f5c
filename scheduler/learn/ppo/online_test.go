//go:build torch

package ppo

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/learn/online"
	"gnnsched/scheduler/learn/run"
)

// newOnline returns a learner whose own network has the fingerprint mine.
func newOnline(t *testing.T) (o *onlineLearner, mine uint64) {
	t.Helper()
	c := tiny()
	c.Rollout = 100
	start := weights(c, checkpoint.MLP)
	var f run.Figures
	made, err := c.NewLearner(c.Settings, start, rand.New(rand.NewPCG(1, 2)), &f)
	fatal.If(t, err)
	t.Cleanup(made.Drop)
	fatal.If(t, made.Keep())
	return made.(*onlineLearner), start.Fingerprint()
}

// A missing step ends a stretch at the one before it, whose state it was. So does a step of another
// network, and one that was overruled. A step without a known reward is left out.
func TestOnlineStretches(t *testing.T) {
	o, mine := newOnline(t)
	states := map[uint64]*graph.Graph{}
	const other, overruled = 14, 17 // of another network; with a node that the network did not choose
	last := uint64(0)
	for _, n := range []uint64{1, 2, 3, 5, 6, 8, 10, 11, 12, 13, other, 15, 16, overruled, 18, 19} {
		s := online.Step{Step: experience.Step{Number: n, State: learntest.Graph(t), Network: mine}, Contiguous: n == last+1 && last > 0,
			Reward: float64(last)}
		if n == other {
			s.Network++
		}
		s.Overruled = n == overruled
		states[n], last = s.State, n
		if _, err := o.Take(s); err != nil {
			t.Fatal(err)
		}
	}
	after := map[uint64]uint64{2: 3, 5: 6, 13: other, 16: overruled}
	var got []uint64
	for _, s := range o.trajectories[0].steps {
		n := number(states, s.state)
		got = append(got, n)
		if want := states[after[n]]; s.after != want || s.reward != float64(n) {
			t.Errorf("step %d ends its stretch: %v, want %v; reward %v", n, s.after != nil, want != nil, s.reward)
		}
	}
	if want := []uint64{1, 2, 5, 10, 11, 12, 13, 15, 16, 18}; !slices.Equal(got, want) {
		t.Fatalf("learns from %v, want %v", got, want)
	}
	if o.stale != 1 {
		t.Errorf("%d steps of another network", o.stale)
	}
}

func number(states map[uint64]*graph.Graph, g *graph.Graph) uint64 {
	for n, s := range states {
		if s == g {
			return n
		}
	}
	return 0
}

// The steps of two actors alternate; the rollout holds one actor's after the other's, and each
// actor's last step is followed by its own next state.
func TestOnlineActors(t *testing.T) {
	o, mine := newOnline(t)
	states := map[uint64]*graph.Graph{}
	for i := range uint64(4) {
		for _, first := range []uint64{1, 101} {
			n := first + i
			states[n] = learntest.Graph(t)
			s := online.Step{Step: experience.Step{Actor: string(rune('a' + first)), Number: n, State: states[n], Network: mine},
				Contiguous: i > 0, Reward: float64(n - 1)}
			if _, err := o.Take(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, err := o.rollout()
	fatal.If(t, err)
	var got []uint64
	var rewards []float64
	var last []bool
	for _, s := range r {
		got, rewards, last = append(got, number(states, s.state)), append(rewards, s.reward), append(last, s.last)
	}
	if want := []uint64{1, 2, 3, 101, 102, 103}; !slices.Equal(got, want) {
		t.Fatalf("rollout of %v, want %v", got, want)
	}
	if want := []float64{1, 2, 3, 101, 102, 103}; !slices.Equal(rewards, want) {
		t.Errorf("rewards %v, want %v", rewards, want)
	}
	if want := []bool{false, false, true, false, false, true}; !slices.Equal(last, want) {
		t.Errorf("last %v, want %v", last, want)
	}
}
