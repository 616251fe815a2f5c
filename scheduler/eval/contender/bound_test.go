package contender_test

import (
	"strings"
	"testing"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/sim"
)

// started returns a simulator of a scenario.
func started(t *testing.T, name string) *sim.Env {
	t.Helper()
	s, err := eval.Find(name)
	fatal.If(t, err)
	c := s.Config
	if c.Nodes.Min > 8 {
		c.Nodes = sim.IntRange{Min: 6, Max: 6}
	}
	env, err := sim.New(c)
	fatal.If(t, err)
	return env
}

// total plays an episode and returns the sum of the costs after its placements.
func total(t *testing.T, env *sim.Env, seed uint64, decide eval.Decide) float64 {
	t.Helper()
	var sum float64
	first := true
	o, err := eval.Episode(env, seed, func(env *sim.Env) (eval.Choice, error) {
		if !first {
			sum += env.Cost()
		}
		first = false
		return decide(env)
	})
	fatal.If(t, err)
	return sum + o.Cost
}

// Rollouts to the end of the episode are at least as good as their policy: at each decision they can still follow it.
func TestLookaheadImproves(t *testing.T) {
	for _, name := range []string{"tiny", "hetero90"} {
		env := started(t, name)
		better := 0
		for seed := range uint64(3) {
			l := &contender.Lookahead{Rollout: eval.Rollout{Policy: heuristic.Kubernetes{}, Horizon: 1 << 30}, Candidates: 3}
			base := total(t, env, seed, eval.Deciding(heuristic.Kubernetes{}, nil))
			improved := total(t, env, seed, l.Decide)
			if improved > base+1e-9 {
				t.Errorf("%s, seed %d: the costs sum up to %v, and to %v with knowledge of the future", name, seed, base, improved)
			}
			if improved < base-1e-9 {
				better++
			}
		}
		if better == 0 {
			t.Errorf("%s: knowledge of the future changes nothing", name)
		}
	}
}

// Over two seeds, rollouts in drawn futures cost less than their policy. The same seed draws the same futures.
func TestExpectingImproves(t *testing.T) {
	env := started(t, "hetero90")
	var base, improved float64
	l := contender.NewExpecting(heuristic.Kubernetes{})
	l.Horizon = 30
	play := func(seed uint64) float64 {
		l.Seed(seed)
		return total(t, env, seed, l.Decide)
	}
	for seed := range uint64(2) {
		base += total(t, env, seed, eval.Deciding(heuristic.Kubernetes{}, nil))
		improved += play(seed)
	}
	if improved >= base {
		t.Errorf("the costs sum up to %v, and to %v with drawn futures", base, improved)
	}
	if once, again := play(1), play(1); once != again {
		t.Errorf("the same seed costs %v and %v", once, again)
	}
}

// A lookahead over drawn futures refuses scenarios whose future it cannot draw.
func TestExpectingRefuses(t *testing.T) {
	env := started(t, "heavytail")
	l := contender.NewExpecting(heuristic.Kubernetes{})
	l.Seed(1)
	if _, err := eval.Episode(env, 1, l.Decide); err == nil || !strings.Contains(err.Error(), "exponential") {
		t.Errorf("heavy tails: %v", err)
	}
}
