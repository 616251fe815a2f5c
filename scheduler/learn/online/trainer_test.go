//go:build torch

package online

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/learn/run"
)

// recorder is a Method and a Learner that only notes its steps.
type recorder struct {
	Learner
	start  *checkpoint.Checkpoint
	steps  []Step
	forgot int
}

func (r *recorder) NewLearner(_ run.Settings, start *checkpoint.Checkpoint, _ *rand.Rand, _ *run.Figures) (Learner, error) {
	r.start = start
	return r, nil
}

func (r *recorder) Take(s Step) (int, error) {
	r.steps = append(r.steps, s)
	return 0, nil
}

func (r *recorder) Forget()      { r.forgot++ }
func (*recorder) Keep() error    { return nil }
func (*recorder) Habits() Habits { return Habits{JudgeEvery: 1} }
func (*recorder) Drop()          {}

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

// A step continues the one before it only within one actor and epoch, and a missing step counts as
// lost.
func TestActorsAndEpochs(t *testing.T) {
	g := learntest.Graph(t)
	var source list
	for _, s := range []experience.Step{
		{Actor: "a", Number: 1}, {Actor: "b", Number: 7}, {Actor: "a", Number: 2}, {Actor: "b", Number: 8},
		{Actor: "a", Number: 4}, {Actor: "b", Epoch: 1, Number: 9}, {Actor: "a", Number: 5},
	} {
		s.State, s.Features = g, feature.Default().Hash()
		s.Before = float64(s.Number)
		s.Overruled = s.Number == 4
		source = append(source, s)
	}
	var r recorder
	var p Progress
	trainer := Trainer{Settings: run.Settings{Reward: run.Reward{Kind: run.StepReward, Scale: 1 / float64(g.Nodes())}}, Method: &r,
		Progress: func(now Progress) { p = now }}
	fatal.If(t, trainer.Learn(&source, learntest.Weights(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 8},
		1)))
	var got []bool
	for _, s := range r.steps {
		got = append(got, s.Contiguous)
		if s.Contiguous && s.Reward != -1 { // the cost rose by 1
			t.Errorf("the reward before step %d of %s is %v", s.Number, s.Actor, s.Reward)
		}
	}
	if want := []bool{false, false, true, true, false, false, true}; !slices.Equal(got, want) {
		t.Errorf("contiguous: %v, want %v", got, want)
	}
	if p.Lost != 1 || p.Steps != 7 || p.Overruled != 1 {
		t.Errorf("%+v, want 1 of 7 lost and 1 overruled", p)
	}
}

// Any number of actors takes a bounded part of the memory.
func TestManyActors(t *testing.T) {
	g := learntest.Graph(t)
	var source list
	for i := range 3 * maxActors {
		source = append(source, experience.Step{Actor: fmt.Sprint(i), Number: 1, State: g, Features: feature.Default().Hash()})
	}
	var r recorder
	trainer := Trainer{Settings: run.Settings{Reward: run.Reward{Kind: run.StepReward, Scale: 1}}, Method: &r}
	fatal.If(t, trainer.Learn(&source, learntest.Weights(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 8},
		1)))
	if len(trainer.last) != maxActors || r.forgot != 2 || len(r.steps) != 3*maxActors {
		t.Errorf("%d actors are known, and the learner forgot %d times", len(trainer.last), r.forgot)
	}
}

// A step whose features are not those of the network is refused with the actor's name, also if the vectors have the same lengths, or have
// others and claim to be the network's.
func TestOtherFeatures(t *testing.T) {
	layout := feature.Default()
	narrow := *learntest.Graph(t)
	narrow.Widths = layout.Widths
	narrow.Widths.Pod--
	c := learntest.Weights(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 8}, 1)
	for name, x := range map[string]struct {
		step experience.Step
		c    *checkpoint.Checkpoint
	}{
		"another hash":  {experience.Step{State: learntest.Graph(t), Features: "another"}, c},
		"other lengths": {experience.Step{State: &narrow, Features: layout.Hash()}, c},
	} {
		x.step.Actor = "host/gnn"
		trainer := Trainer{Method: &recorder{}}
		if err := trainer.Learn(&list{x.step}, x.c); err == nil || !strings.Contains(err.Error(), "host/gnn") {
			t.Errorf("%s: got %v, want an error that names the actor", name, err)
		}
	}
}
