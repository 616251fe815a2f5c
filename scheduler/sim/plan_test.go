package sim

import (
	"math"
	"slices"
	"testing"

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
