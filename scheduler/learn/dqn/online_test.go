//go:build torch

package dqn

import (
	"slices"
	"testing"

	"gnnsched/gnn/graph"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/learn/online"
)

// take gives a learner an actor's steps of the numbers, each with its own number as the reward of the
// one before it.
func take(t *testing.T, o *onlineLearner, g *graph.Graph, actor string, numbers ...uint64) {
	t.Helper()
	for i, n := range numbers {
		s := online.Step{Step: experience.Step{Actor: actor, Number: n, State: g}, Reward: float64(n - 1)}
		s.Contiguous = i > 0 && numbers[i-1] == n-1
		if _, err := o.Take(s); err != nil {
			t.Fatal(err)
		}
	}
}

func newOnline() *onlineLearner {
	c := short(1)
	c.NStep = 2
	return &onlineLearner{learner: &learner{config: c}, memory: sized(10, 1<<30, 0), queues: map[string]*nStep{}}
}

func returns(o *onlineLearner) (out []float64) {
	for _, tr := range o.memory.transitions[:o.memory.size] {
		out = append(out, tr.ret)
	}
	return out
}

// After a gap in the numbers no transition reaches over it.
func TestOnlineGaps(t *testing.T) {
	o := newOnline()
	take(t, o, learntest.Graph(t), "", 1, 2, 3, 5, 6, 8, 9, 10)
	if got, want := returns(o), []float64{1 + 0.5*2, 8 + 0.5*9}; !slices.Equal(got, want) {
		t.Errorf("returns %v, want %v", got, want)
	}
}

// The steps of two actors alternate; a transition consists of one actor's.
func TestOnlineActors(t *testing.T) {
	o, g := newOnline(), learntest.Graph(t)
	for i := range 4 {
		for actor, n := range map[string]int{"a": 1 + i, "b": 101 + i} {
			s := online.Step{Step: experience.Step{Actor: actor, Number: uint64(n), State: g}, Contiguous: i > 0, Reward: float64(n - 1)}
			if _, err := o.Take(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := returns(o)
	slices.Sort(got)
	if want := []float64{1 + 0.5*2, 2 + 0.5*3, 101 + 0.5*102, 102 + 0.5*103}; !slices.Equal(got, want) {
		t.Errorf("returns %v, want %v", got, want)
	}
}
