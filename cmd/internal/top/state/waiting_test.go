package state

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhy(t *testing.T) {
	for _, c := range []struct{ reason, message, want string }{
		{"", "", "no scheduler has tried it yet"},
		{"Unschedulable", "", "Unschedulable"},
		{"Unschedulable", "0/5 nodes are available: 1 node(s) had untolerated taint {a: b}, 4 Insufficient cpu. no new claims to deallocate, " +
			"preemption: 0/5 nodes are available: 5 No preemption victims found.", "4 Insufficient cpu, 1 had untolerated taint {a: b}"},
		{"Unschedulable", "0/2 nodes are available: pod has unbound claims, 2 Insufficient cpu.", "pod has unbound claims, 2 Insufficient cpu"},
		{"Unschedulable", "no nodes available to schedule pods", "no nodes available to schedule pods"},
		{"SchedulingGated", "blocked", "SchedulingGated: blocked"},
	} {
		if got := (&PendingPod{Reason: c.reason, Message: c.message}).Why(); got != c.want {
			t.Errorf("%q, %q: %q, want %q", c.reason, c.message, got, c.want)
		}
	}
}

// Each reason counts the pods that wait for it, once a pod, in kube-scheduler's words.
func TestCausesOf(t *testing.T) {
	full := "0/5 nodes are available: 1 node(s) had untolerated taint {a: b}, 4 Insufficient cpu. preemption: 0/5 nodes are available: " +
		"5 No preemption victims found."
	got := CausesOf([]PendingPod{
		{Reason: "Unschedulable", Message: full}, {Reason: "Unschedulable", Message: full},
		{Reason: "Unschedulable", Message: "0/5 nodes are available: 3 Insufficient cpu, 2 Insufficient cpu."},
		{Reason: "SchedulingGated", Message: "blocked"}, {}, {},
	})
	want := []Cause{
		{"Insufficient cpu", 3, 4}, {"node(s) had untolerated taint {a: b}", 2, 1}, {"no scheduler has tried it yet", 2, 0},
		{"SchedulingGated: blocked", 1, 0},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}
