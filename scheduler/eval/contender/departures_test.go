package contender

import (
	"testing"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
)

// A policy that keeps no reserve cannot keep a longer one: it must not play under that name.
func TestOnlyReservesAreKeptLonger(t *testing.T) {
	x := eval.Contender{Name: "kubernetes", New: func(policy.Setting) policy.Policy { return heuristic.Kubernetes{} }}
	if _, err := ofLeaving(x); err == nil {
		t.Error("a heuristic was accepted")
	}
	if _, err := Named("leaving:gpu-gnn"); err != nil {
		t.Error(err)
	}
}
