package sim_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

// at returns an environment of a scenario after some placements, and a copy.
func at(t *testing.T, name string, placements int) (env, copied *sim.Env) {
	t.Helper()
	s, err := eval.Find(name)
	fatal.If(t, err)
	if env, err = sim.New(s.Config); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, env.Reset(7))
	for i := range placements {
		env.Step(i % len(env.Candidates()))
	}
	copied = &sim.Env{}
	env.CopyTo(copied)
	return env, copied
}

// A drawn future leaves the present and the environment that it was copied from alone, brings only what has been seen, after
// the rest of the deployment that arrives now, and has the lifetimes of the scenario.
func TestDrawFuture(t *testing.T) {
	for _, placements := range []int{0, 100, 2500} {
		env, copied := at(t, "hetero95", placements)
		before := env.Plan()
		fatal.If(t, copied.DrawFuture(rand.New(rand.NewPCG(1, 2))))
		if d := cmp.Diff(before, env.Plan()); d != "" {
			t.Fatalf("after %d placements the original changed: %s", placements, d)
		}
		if env.Next() != copied.Next() || !slices.Equal(env.Candidates(), copied.Candidates()) || env.Now() != copied.Now() ||
			!slices.Equal(env.Waiting(), copied.Waiting()) {
			t.Errorf("after %d placements the present changed", placements)
		}
		arrived := int(env.Now())
		seen := map[cluster.Resources]bool{}
		for _, a := range before[:arrived] {
			seen[a.Pod.Requests] = true
		}
		after := copied.Plan()
		current := before[arrived-1].Pod.Name
		for i, a := range after {
			switch {
			case i < arrived:
				if a.Pod.Name != before[i].Pod.Name || a.Pod.Requests != before[i].Pod.Requests {
					t.Fatalf("after %d placements, pod %d of the past changed", placements, i)
				}
			case before[i].Pod.Name == current && a.Pod.Name != current:
				t.Errorf("after %d placements, replica %d of the deployment that arrives is missing", placements, i)
			case !seen[a.Pod.Requests]:
				t.Errorf("after %d placements, pod %d requests what was never seen", placements, i)
			}
		}
		if placements == 2500 && cmp.Equal(before[arrived:], after[arrived:]) {
			t.Error("the drawn future is the true one")
		}
	}
}

// Drawn lifetimes have the mean of the true ones.
func TestDrawFutureLifetimes(t *testing.T) {
	env, copied := at(t, "hetero95", 2000)
	mean := func(plans ...[]sim.Arrival) float64 {
		var sum float64
		var n int
		for _, a := range slices.Concat(plans...) {
			sum, n = sum+a.Lifetime, n+1
		}
		return sum / float64(n)
	}
	var drawn [][]sim.Arrival
	for seed := range uint64(10) {
		fatal.If(t, copied.DrawFuture(rand.New(rand.NewPCG(seed, 2))))
		drawn = append(drawn, copied.Plan())
	}
	if got, want := mean(drawn...), mean(env.Plan()); math.Abs(got/want-1) > 0.06 {
		t.Errorf("mean lifetime %.0f, want about %.0f", got, want)
	}
}

// A future with memory cannot be drawn.
func TestDrawFutureRefused(t *testing.T) {
	for _, name := range []string{"lossy", "bursty", "heavytail", "traffic", "harvest"} {
		env, _ := at(t, name, 10)
		if err := env.DrawFuture(rand.New(rand.NewPCG(1, 2))); err == nil {
			t.Errorf("%s: a future was drawn", name)
		}
	}
}
