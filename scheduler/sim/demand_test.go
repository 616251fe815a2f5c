package sim

import (
	"math"
	"testing"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
)

// The waiting share is what the waiting pods request, at every decision, also after nodes are lost.
func TestWaitingShare(t *testing.T) {
	c := scarce()
	c.Load, c.Lose = FloatRange{0.9, 0.95}, 0.2
	var err error
	c.Objective, err = objective.Parse("waiting=2,balance")
	fatal.If(t, err)
	env, err := New(c)
	fatal.If(t, err)
	waited := 0
	for seed := range uint64(6) {
		fatal.If(t, env.Reset(seed))
		for !env.Done() {
			env.Step(len(env.Candidates()) - 1)
			var refused []int                                       // the others of the waiting pods are tried at this moment
			for _, pod := range append(env.Waiting(), env.Next()) { // the pod that gets a node now has waited until now
				if pod >= 0 && env.queue.waits[pod] {
					refused = append(refused, pod)
				}
			}
			want := env.WaitingCost(refused)
			if got := 2 * env.queue.share; math.Abs(got-want) > 1e-9 {
				t.Fatalf("seed %d at %v: the queue costs %v, its pods %v", seed, env.Now(), got, want)
			}
			if want > 0 {
				waited++
			}
		}
		rest := env.Outcome().Cost - env.WaitingCost(env.Waiting())
		if balance := (objective.Balance{}).Cost(env.Nodes()); math.Abs(rest-balance) > 1e-9 {
			t.Errorf("seed %d: without waiting the cost is %v, balance %v", seed, rest, balance)
		}
	}
	if waited == 0 {
		t.Error("no pod waited")
	}
}
