package sim_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

// A copy made anywhere in an episode ends like the original, and what happens in one does not show in
// the other. The scenarios have pods that wait, lost nodes, zones, bursts, usage and traffic.
func TestCopyTo(t *testing.T) {
	for _, name := range []string{"hetero95", "lossy", "zonal", "bursty", "harvest", "blind", "traffic"} {
		t.Run(name, func(t *testing.T) {
			s, err := eval.Find(name)
			fatal.If(t, err)
			env, err := sim.New(s.Config)
			fatal.If(t, err)
			var dst sim.Env // used again for every copy
			var whole sim.Outcome
			for _, at := range []int{-1, 0, 700, 1900} {
				fatal.If(t, env.Reset(3))
				for i := 0; i != at && !env.Done(); i++ {
					env.Step(i % len(env.Candidates()))
				}
				if at < 0 {
					whole = env.Outcome()
					continue
				}
				env.CopyTo(&dst)
				if d := math.Abs(dst.Cost() - env.Cost()); d > 1e-9 {
					t.Errorf("after %d steps the costs differ by %v", at, d)
				}
				for i := range 50 { // another policy, for a while
					if dst.Done() {
						break
					}
					dst.Step((i * 7) % len(dst.Candidates()))
				}
				env.CopyTo(&dst)
				for _, e := range []*sim.Env{env, &dst} {
					for i := at; !e.Done(); i++ {
						e.Step(i % len(e.Candidates()))
					}
					if d := cmp.Diff(whole, e.Outcome(), cmpopts.EquateApprox(1e-9, 1e-12)); d != "" {
						t.Errorf("after %d steps: %s", at, d)
					}
				}
			}
		})
	}
}
