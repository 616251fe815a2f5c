package run

import (
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/wish"
	"gnnsched/scheduler/sim"
)

var wishSets = []string{"base", "whole", "wishes"}

func mix(t *testing.T, text string) objective.Mix {
	t.Helper()
	m, err := objective.Parse(text)
	fatal.If(t, err)
	return m
}

func TestWishing(t *testing.T) {
	many := Settings{Wishes: []string{"balance", "energy"}, Imitation: Imitation{Teacher: "greedy", Share: 1}}
	with := func(change func(*Settings)) Settings {
		s := many
		change(&s)
		return s
	}
	a := checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.ActorCritic, Hidden: 8, Features: wishSets}
	w, known, err := many.Wishing(a, mix(t, "balance=3,energy=2.5"))
	if err != nil || !wish.Near(w, feature.Wishes{0.75, 0.25, 0}) || len(known) != 2 ||
		known[0] != (checkpoint.Wish{Term: "balance", Share: float64(w[0]), Most: 1}) {
		t.Errorf("%v, %+v, %v", w, known, err)
	}
	w, known, err = Settings{}.Wishing(a, mix(t, "pack"))
	if err != nil || w != (feature.Wishes{0, 0, 1}) || len(known) != 1 ||
		known[0] != (checkpoint.Wish{Term: "pack", Share: 1, Least: 1, Most: 1}) {
		t.Errorf("one objective: %v, %+v, %v", w, known, err)
	}
	plain := a
	plain.Features = nil
	if w, known, err := (Settings{}).Wishing(plain, mix(t, "zones")); err != nil || known != nil || w != (feature.Wishes{}) {
		t.Errorf("a network that reads no objective: %v, %+v, %v", w, known, err)
	}
	for _, c := range []struct {
		s    Settings
		a    checkpoint.Architecture
		o    string
		want string
	}{
		{many, plain, "balance", "add the set wishes"},
		{many, a, "balance,pack", "has pack, which they lack"},
		{many, a, "zones", "cannot read the term zones"},
		{with(func(s *Settings) { s.Imitation.Teacher = "linear" }), a, "balance", "want greedy"},
		{with(func(s *Settings) { s.Wishes = []string{"luck"} }), a, "balance", "which they lack"},
		{with(func(s *Settings) { s.Wishes = []string{"balance", "luck"} }), a, "balance", `"luck" is not known`},
		{with(func(s *Settings) { s.Wishes = []string{"balance", "balance"} }), a, "balance", "named twice"},
	} {
		if _, _, err := c.s.Wishing(c.a, mix(t, c.o)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v on %s: %v, want %q", c.s.Wishes, c.o, err, c.want)
		}
	}
}

// Each episode has an objective of its own, by its seed: that of the simulator and of the teacher. A restored
// environment has that of its episode.
func TestEpisodesDrawTheirObjective(t *testing.T) {
	s := Settings{Wishes: []string{"balance", "energy"}, Imitation: Imitation{Teacher: "greedy", Share: 1}}
	c := BalanceEnv()
	a := checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.ActorCritic, Hidden: 8, Features: wishSets}
	envs, err := NewEnvironments(s, []sim.Config{c}, Layout{Count: 1, Group: 1}, a, &Figures{})
	fatal.If(t, err)
	e, seen := envs.All[0], map[feature.Wishes]bool{}
	for range 10 {
		fatal.If(t, e.Begin())
		want := wish.Draw(e.Seed, s.Wishes)
		name := wish.Mix(want).Name()
		if e.wishes != want || e.env.Config().Objective.Name() != name || e.teacher.Name() != "greedy:"+strings.ReplaceAll(name, ",", "+") {
			t.Fatalf("objective %v of the network, %s of the simulator, teacher %s; want %s", e.wishes, e.env.Config().Objective.Name(),
				e.teacher.Name(), name)
		}
		seen[want] = true
	}
	if len(seen) < 5 {
		t.Errorf("%d objectives in ten episodes", len(seen))
	}
	before := e.progress
	fatal.If(t, e.Begin())
	if err := e.restore(before); err != nil || e.wishes != wish.Draw(before.Seed, s.Wishes) {
		t.Errorf("restored with %v: %v", e.wishes, err)
	}
}

// listener notes what it is told.
type listener struct {
	policy.Policy
	told []feature.Wishes
}

func (*listener) Name() string { return "listener" }

func (l *listener) Wish(w feature.Wishes) { l.told = append(l.told, w) }

func (*listener) Score(*cluster.Snapshot, *cluster.Pod, []int32, []float32) error { return nil }

// Held-out episodes have the objectives of their seeds, and tell them to the network.
func TestHeldOutWishes(t *testing.T) {
	h, err := NewHeldOut(BalanceEnv(), 3)
	fatal.If(t, err)
	h.Wishing([]string{"balance", "energy"})
	l := &listener{}
	if _, err := h.Evaluate(l, false); err != nil {
		t.Fatal(err)
	}
	for i, w := range l.told {
		if w != wish.Draw(heldOutSeed+uint64(i), []string{"balance", "energy"}) {
			t.Errorf("episode %d: %v", i, w)
		}
	}
	if len(l.told) != 3 {
		t.Errorf("told %d times", len(l.told))
	}
}
