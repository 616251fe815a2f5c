package heuristic

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
)

// The help, from which docs/reference/policies.md is made, says which weights a recorded command reproduces.
func TestHowWeightsCameAbout(t *testing.T) {
	for _, name := range linear.TunedNames() {
		h := fatal.Value(Find(name))(t)
		recorded := linear.Tuned(name).Tuning != nil
		if !strings.Contains(h.About, "tuned by the cross-entropy method") || strings.Contains(h.About, "not recorded") == recorded {
			t.Errorf("%s, recorded %v: %s", name, recorded, h.About)
		}
	}
}

func TestFindLinear(t *testing.T) {
	name := FromWeights("../linear/linear-pack.json")
	h, err := Find(name)
	if err != nil || h.Name != name || h.New(policy.Setting{}).Name() != name || h.RandomTies {
		t.Fatal(h, err)
	}
	if d := cmp.Diff(linear.Tuned("linear-pack").Weights(), h.New(policy.Setting{}).(*linear.Policy).Weights()); d != "" {
		t.Error(d)
	}
	if _, err := Find(FromWeights("none.json")); err == nil || !strings.Contains(err.Error(), "none.json") {
		t.Error("a file that there is not:", err)
	}
}
