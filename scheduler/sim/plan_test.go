package sim

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/fatal"
)

// Pods arrive in the order of the plan. A placed pod that is in none of the environment's lists has
// left or stays for good.
func TestPlan(t *testing.T) {
	c := config()
	c.Turnover, c.Initial = 1, 0
	env, err := New(c)
	fatal.If(t, err)
	fatal.If(t, env.Reset(3))
	plan := env.Plan()
	running := map[int]bool{}
	for !env.Done() {
		next := env.Next()
		if plan[next].Pod != env.Pending() || running[next] || slices.Contains(env.Waiting(), next) {
			t.Fatalf("arrival %d is pending", next)
		}
		if life := plan[next].Lifetime; !(life > 0) || math.IsInf(life, 0) {
			t.Fatalf("arrival %d lives for %v", next, life)
		}
		env.Step(0)
		running[next] = true
		left := len(running)
		for p := range plan {
			if !env.Runs(p) {
				continue
			}
			if !running[p] {
				t.Fatalf("arrival %d runs and was never placed", p)
			}
			left--
		}
		var used int64
		for _, n := range env.Snapshot().Nodes {
			used += n.Requested.Pods
		}
		if int(used) != len(running)-left {
			t.Fatalf("%d pods run, %d were placed and %d of them left", used, len(running), left)
		}
	}
	if o := env.Outcome(); env.Next() != -1 || o.Placed != len(running) || o.Unscheduled != len(env.Waiting()) || o.Arrived != len(plan) {
		t.Errorf("%d of %d placed, %d wait: %+v", len(running), len(plan), len(env.Waiting()), o)
	}
}

// Training episodes with valid seeds are never episodes of the evaluation, or of the choice of the best network.
func TestApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		training := rapid.Uint64().Draw(t, "training")
		if rapid.Bool().Draw(t, "small") {
			training %= 4
		}
		first := rapid.Uint64Range(0, 2*evaluationEnd).Draw(t, "first")
		n := rapid.IntRange(1, 100_000).Draw(t, "seeds")
		if CheckTrainingSeed(training) != nil || CheckEvaluationSeeds(first, n) != nil {
			return
		}
		episode := TrainingEpisode(training, rapid.Uint64Range(1, math.MaxUint32).Draw(t, "episode"))
		if episode <= first+uint64(n)-1 || episode >= 1<<62 {
			t.Fatalf("episode %d of --seed %d; the evaluation uses %d to %d", episode, training, first, first+uint64(n)-1)
		}
	})
}

func TestChecks(t *testing.T) {
	for seed, ok := range map[uint64]bool{0: false, 1: true, maxTraining: true, maxTraining + 1: false, math.MaxUint64: false} {
		if err := CheckTrainingSeed(seed); (err == nil) != ok {
			t.Errorf("training with %d: %v", seed, err)
		}
	}
	for _, c := range []struct {
		first uint64
		n     int
		ok    bool
	}{
		{0, 1, true}, {evaluationEnd - 10, 10, true}, {evaluationEnd - 9, 10, false}, {evaluationEnd, 1, false}, {math.MaxUint64, 1, false},
		{math.MaxUint64, 10, false},
	} {
		if err := CheckEvaluationSeeds(c.first, c.n); (err == nil) != c.ok {
			t.Errorf("evaluation of %d from %d: %v", c.n, c.first, err)
		}
	}
}
