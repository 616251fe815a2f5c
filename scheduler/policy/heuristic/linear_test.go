package heuristic

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
)

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
