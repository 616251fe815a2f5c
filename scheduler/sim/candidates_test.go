package sim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy/preference"
)

// At every step the preferences are those of the pods of the same deployment that run then, whichever
// nodes were chosen and lost before.
func TestPreferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		c.Preferences = rapid.SampledFrom([]preference.Mode{"", preference.First, preference.Declared, preference.Off}).Draw(t, "mode")
		if rapid.Bool().Draw(t, "taints") {
			c.Sizes = slices.Clone(c.Sizes)
			c.Sizes[0].Taints = []cluster.Taint{{Key: "old", Effect: cluster.PreferNoSchedule}}
		}
		e, err := New(c)
		fatal.If(t, err)
		fatal.If(t, e.Reset(rapid.Uint64Range(0, 1000).Draw(t, "seed")))
		rng := rand.New(rand.NewPCG(1, 2))
		for !e.Done() {
			var running []int32
			for pod, row := range e.on {
				if row >= 0 && e.arrivals.pods[pod] == e.arrivals.pods[e.pending] {
					running = append(running, row)
				}
			}
			want := preference.NewScorer(c.PreferenceMode(), e.Snapshot().Nodes).Sums(e.Pending(), e.Candidates(), running)
			if d := cmp.Diff(want, e.Preferences()); d != "" {
				t.Fatalf("%s beside %v: %s", e.Pending().Name, running, d)
			}
			other := preference.Weights{Spread: 5, Taints: 1}
			want = slices.Clone(want)
			if d := cmp.Diff(preference.NewScorer(c.PreferenceMode(), e.Snapshot().Nodes).SumsBy(other, e.Pending(), e.Candidates(), running),
				e.PreferencesBy(other)); d != "" {
				t.Fatalf("by other weights: %s", d)
			}
			best := preference.Best(want, nil)
			if want == nil {
				for i := range e.Candidates() {
					best = append(best, int32(i))
				}
			}
			if got := e.Snapshot().Preferred; got != len(best) {
				t.Fatalf("the snapshot says that %d candidates are preferred, want %d", got, len(best))
			}
			if d := cmp.Diff(best, e.Preferred()); d != "" {
				t.Fatalf("preferred: %s", d)
			}
			e.Step(rng.IntN(len(e.Candidates())))
		}
	})
}

// The pods of a generated deployment belong to it, those of a trace to nothing, as with runsim.
func TestOwners(t *testing.T) {
	for _, a := range newEnv(t, config(), 1).Plan() {
		if a.Pod.Owner == "" || a.Pod.Owner != a.Pod.Name {
			t.Errorf("%+v does not belong to its deployment", a.Pod)
		}
	}
	for _, a := range newEnv(t, openbConfig(t, 1.3), 1).Plan() {
		if a.Pod.Owner != "" {
			t.Errorf("%+v of a trace belongs to %s", a.Pod, a.Pod.Owner)
		}
	}
}
