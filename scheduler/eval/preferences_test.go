package eval_test

import (
	"math"
	"slices"
	"testing"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/sim"
)

// Preferences come first: a policy chooses the best-scored of the preferred nodes. kube-scheduler instead adds its scores to the
// preferences' scores. Both matter in the episode.
func TestPreferencesComeFirst(t *testing.T) {
	env := started(t, "hetero80", preference.First)
	bestFit, kubernetes := named(t, "best-fit"), named(t, "kube-scheduler")
	overruled, weighed := 0, 0
	for steps := 0; !env.Done() && steps < 1000; steps++ {
		rows, sums := env.Candidates(), env.Preferences()
		own := make([]float32, len(rows))
		fatal.If(t, kubernetes.Score(env.Snapshot(), env.Pending(), rows, own))
		total := scores(t, env, kubernetes)
		for i := range total {
			if sums != nil && total[i] != own[i]+float32(sums[i]) || sums == nil && total[i] != own[i] {
				t.Fatalf("kube-scheduler's score %v of candidate %d is not %v plus that of preferences", total[i], i, own[i])
			}
		}
		if !slices.Contains(env.Preferred(), int32(policy.Best(total))) {
			weighed++
		}
		fatal.If(t, bestFit.Score(env.Snapshot(), env.Pending(), rows, own))
		after := scores(t, env, bestFit)
		for i := range after {
			preferred := slices.Contains(env.Preferred(), int32(i))
			if preferred && after[i] != own[i] || !preferred && !math.IsInf(float64(after[i]), -1) {
				t.Fatalf("best-fit's score %v of candidate %d, preferred: %v, was %v", after[i], i, preferred, own[i])
			}
		}
		if policy.Best(after) != policy.Best(own) {
			overruled++
		}
		env.Step(policy.Best(after))
	}
	if overruled == 0 || weighed == 0 {
		t.Errorf("preferences overruled best-fit %d times, and kube-scheduler preferences %d times", overruled, weighed)
	}
}

// With preferences off, scores are the policy's own.
func TestPreferencesOff(t *testing.T) {
	env := started(t, "zonal", preference.Off)
	p := named(t, "kube-scheduler")
	for steps := 0; !env.Done() && steps < 100; steps++ {
		own := make([]float32, len(env.Candidates()))
		fatal.If(t, p.Score(env.Snapshot(), env.Pending(), env.Candidates(), own))
		if got := scores(t, env, p); !slices.Equal(got, own) {
			t.Fatalf("step %d: %v, want %v", steps, got, own)
		}
		env.Step(policy.Best(own))
	}
}

// YAML reads an unquoted off as a boolean.
func TestPreferencesInScenarioFile(t *testing.T) {
	source, err := eval.Source("aaml")
	fatal.If(t, err)
	got, err := eval.Read("mine.yaml", append(source, "preferences: off\n"...))
	if err != nil || got[0].Preferences != preference.Off {
		t.Errorf("%+v, %v", got, err)
	}
}

// started returns the first episode of a built-in scenario.
func started(t *testing.T, scenario string, m preference.Mode) *sim.Env {
	t.Helper()
	s, err := eval.Find(scenario)
	fatal.If(t, err)
	s.Preferences = m
	env, err := sim.New(s.Config)
	if err == nil {
		err = env.Reset(1)
	}
	fatal.If(t, err)
	return env
}

func named(t *testing.T, name string) policy.Policy {
	t.Helper()
	h, err := heuristic.Find(name)
	fatal.If(t, err)
	return h.New(policy.Setting{})
}

func scores(t *testing.T, env *sim.Env, p policy.Policy) []float32 {
	t.Helper()
	out, err := eval.Scores(env, p, nil)
	fatal.If(t, err)
	return out
}
