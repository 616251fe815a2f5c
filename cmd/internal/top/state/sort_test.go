package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
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

func anyNodes(t *rapid.T) []Node {
	n := rapid.IntRange(0, 30).Draw(t, "nodes")
	out := make([]Node, n)
	usage := func(label string) Usage {
		return Usage{Requested: rapid.Int64Range(0, 5).Draw(t, label), Allocatable: rapid.Int64Range(0, 4).Draw(t, label)}
	}
	for i := range out {
		out[i] = Node{
			Name: fmt.Sprintf("node-%d", i), Status: rapid.SampledFrom([]string{"Ready", "NotReady"}).Draw(t, "status"),
			Roles:   rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 0, 2).Draw(t, "roles"),
			Created: time.Unix(rapid.Int64Range(0, 3).Draw(t, "created"), 0),
			CPU:     usage("cpu"), Memory: usage("memory"), GPU: usage("gpu"), Pods: usage("pods"),
		}
	}
	return out
}

var anySort = rapid.Custom(func(t *rapid.T) Sort {
	return Sort{Column: rapid.SampledFrom(Columns()).Draw(t, "column"), Desc: rapid.Bool().Draw(t, "desc")}
})

// TestSortPermutes: sorting keeps every node once, orders by the column, and gives the same result
// for every initial order.
func TestSortPermutes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, s := anyNodes(t), anySort.Draw(t, "sort")
		out := slices.Clone(in)
		s.Apply(out)
		seen := map[string]bool{}
		for i := range out {
			seen[out[i].Name] = true
			if i == 0 {
				continue
			}
			if c := compare(s.Column, &out[i-1], &out[i]); s.Desc && c < 0 || !s.Desc && c > 0 {
				t.Fatalf("%v: %s before %s", s, out[i-1].Name, out[i].Name)
			}
		}
		if len(seen) != len(in) || len(out) != len(in) {
			t.Fatalf("%d nodes became %d, %d of them different", len(in), len(out), len(seen))
		}
		again := rapid.Permutation(in).Draw(t, "permutation")
		if s.Apply(again); names(again) != names(out) {
			t.Fatalf("%v depends on the order before: %s and %s", s, names(again), names(out))
		}
	})
}
