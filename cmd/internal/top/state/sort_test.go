package state

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

var nodes = []Node{
	{Name: "node-2", Status: "Ready", Roles: []string{"agent"}, Zone: "Zone-A", Version: "v1.36.3", Ready: true, Worker: true,
		Created: time.Unix(100, 0),
		CPU:     Usage{Requested: 32_000, Allocatable: 64_000}, Memory: Usage{Requested: 16 << 30, Allocatable: 256 << 30},
		Pods: Usage{Requested: 31, Allocatable: 110}},
	{Name: "node-10", Status: "NotReady", Roles: []string{"agent"}, Zone: "zone-b", Version: "v1.35.0", Worker: true,
		Created: time.Unix(200, 0),
		CPU:     Usage{Requested: 60_000, Allocatable: 64_000}, Memory: Usage{Requested: 1 << 30, Allocatable: 256 << 30},
		GPU: Usage{Requested: 4000, Allocatable: 8000}, Pods: Usage{Requested: 5, Allocatable: 110}},
	{Name: "control", Status: "Ready", Roles: []string{"control-plane"}, Version: "v1.36.3", Ready: true, Created: time.Unix(50, 0),
		CPU: Usage{Allocatable: 64_000}, Memory: Usage{Allocatable: 256 << 30}, Pods: Usage{Allocatable: 110}},
	{Name: "bare", Status: "Ready,SchedulingDisabled", Ready: true, Cordoned: true, Worker: true},
}

func names(ns []Node) string {
	var out []string
	for _, n := range ns {
		out = append(out, n.Name)
	}
	return strings.Join(out, " ")
}

func TestSort(t *testing.T) {
	for expr, want := range map[string]string{
		"":            "bare control node-2 node-10",
		"name":        "bare control node-2 node-10",
		"name:desc":   "node-10 node-2 control bare",
		"cpu":         "node-10 node-2 bare control",
		"CPU:asc":     "bare control node-2 node-10",
		"mem":         "node-2 node-10 bare control",
		"pods":        "node-2 node-10 bare control",
		"gpu":         "node-10 bare control node-2",
		"status":      "node-10 bare control node-2",
		"roles":       "bare node-2 node-10 control",
		"age":         "node-10 node-2 control bare", // the youngest first
		" age:desc ":  "bare control node-2 node-10",
		"version":     "bare node-10 control node-2",
		"memory:desc": "node-2 node-10 bare control",
	} {
		s, err := ParseSort(expr)
		if err != nil {
			t.Errorf("%q: %v", expr, err)
			continue
		}
		got := slices.Clone(nodes)
		if s.Apply(got); names(got) != want {
			t.Errorf("%q: %s, want %s", expr, names(got), want)
		}
	}
	for _, expr := range []string{"size", "cpu:up", ":", ":desc", "cpu:", "cpu desc", "name:asc:desc"} {
		if s, err := ParseSort(expr); err == nil {
			t.Errorf("%q: read as %+v, want an error", expr, s)
		}
	}
}

// The filter is a text that a row must contain.
func TestSelect(t *testing.T) {
	for text, want := range map[string]string{
		"": "node-2 node-10 control bare", " node ": "node-2 node-10", "NODE-1": "node-10", "zone-a": "node-2", "v1.36": "node-2 control",
		"worker": "bare", "control-plane": "control", "cpu>50%": "",
	} {
		if got := names(Select(nodes, text, (*Node).Texts)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	pods := []PendingPod{{Namespace: "default", Name: "a", Scheduler: "gnn", Message: "2 Insufficient cpu."}, {Namespace: "other", Name: "b"}}
	for text, want := range map[string]string{"GNN": "a", "other/b": "b", "insufficient": "a"} {
		if got := Select(pods, text, (*PendingPod).Texts); len(got) != 1 || got[0].Name != want {
			t.Errorf("%q: %v, want %s", text, got, want)
		}
	}
}

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

func TestWhySaysWhatAPodNeeds(t *testing.T) {
	p := &PendingPod{Reason: "Unschedulable", Message: "0/2 nodes are available: 2 Insufficient cpu.", Needs: "disk=ssd"}
	if got := p.Why(); got != "needs disk=ssd: 2 Insufficient cpu" {
		t.Errorf("%q", got)
	}
	pod := &v1.Pod{Spec: v1.PodSpec{NodeSelector: map[string]string{"disk": "s\x1b[2Jsd"}}}
	if got := podOf(pod).Needs; got == "" || strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
	pod.Spec.NodeName = "n"
	if got := podOf(pod).Needs; got != "" {
		t.Errorf("a pod with a node needs %q", got)
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
