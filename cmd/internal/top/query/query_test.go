package query

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gnnsched/cmd/internal/top/state"
)

var nodes = []state.Node{
	{Name: "node-2", Status: "Ready", Roles: []string{"agent"}, Zone: "Zone-A", Version: "v1.36.3", Ready: true, Worker: true,
		Created: time.Unix(100, 0),
		CPU:     state.Usage{Requested: 32_000, Allocatable: 64_000}, Memory: state.Usage{Requested: 16 << 30, Allocatable: 256 << 30},
		Pods: state.Usage{Requested: 31, Allocatable: 110}},
	{Name: "node-10", Status: "NotReady", Roles: []string{"agent"}, Zone: "zone-b", Version: "v1.35.0", Worker: true,
		Created: time.Unix(200, 0),
		CPU:     state.Usage{Requested: 60_000, Allocatable: 64_000}, Memory: state.Usage{Requested: 1 << 30, Allocatable: 256 << 30},
		GPU: state.Usage{Requested: 4000, Allocatable: 8000}, Pods: state.Usage{Requested: 5, Allocatable: 110}},
	{Name: "control", Status: "Ready", Roles: []string{"control-plane"}, Version: "v1.36.3", Ready: true, Created: time.Unix(50, 0),
		CPU: state.Usage{Allocatable: 64_000}, Memory: state.Usage{Allocatable: 256 << 30}, Pods: state.Usage{Allocatable: 110}},
	{Name: "bare", Status: "Ready,SchedulingDisabled", Ready: true, Cordoned: true, Worker: true},
}

func names(ns []state.Node) string {
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

func TestFilter(t *testing.T) {
	for expr, want := range map[string]string{
		"":                    "node-2 node-10 control bare",
		"node":                "node-2 node-10",
		"NODE ready":          "node-2 node-10",
		"!notready":           "node-2 control bare",
		"zone-a":              "node-2",
		"v1.36 agent":         "node-2",
		"worker":              "bare",
		"control-plane":       "control",
		"cpu>50%":             "node-10",
		"cpu>=50%":            "node-2 node-10",
		"cpu>=32":             "node-2 node-10",
		"cpu=32000m":          "node-2",
		"cpu<1":               "control bare",
		"mem>=16Gi":           "node-2",
		"memory<16gi mem>0":   "node-10",
		"mem>1M mem<2G":       "node-10",
		"pods>5":              "node-2",
		"pods=5":              "node-10",
		"!pods=0":             "node-2 node-10",
		"gpu>0":               "node-10",
		"gpu=50%":             "node-10",
		"a>b":                 "",
		"node cpu>90% !ready": "",
	} {
		f, err := ParseFilter(expr)
		if err != nil {
			t.Errorf("%q: %v", expr, err)
			continue
		}
		if got := names(Select(f, nodes, NodeRow)); got != want {
			t.Errorf("%q: %q, want %q", expr, got, want)
		}
	}
	for _, expr := range []string{"!", "node !", "cpu>", "cpu>x", "mem=>5", "pods>5%%", "cpu<NaN%", "gpu>1Zi"} {
		if _, err := ParseFilter(expr); err == nil {
			t.Errorf("%q: no error", expr)
		}
	}
}

func TestFilterPending(t *testing.T) {
	pods := []state.PendingPod{
		{Namespace: "default", Name: "a", Scheduler: "gnn", Reason: "Unschedulable", Message: "2 Insufficient cpu."},
		{Namespace: "other", Name: "b", Scheduler: "dqn"},
	}
	for expr, want := range map[string]string{"": "a b", "GNN": "a", "other/b": "b", "insufficient": "a", "!unschedulable": "b", "cpu>0": "",
		"!cpu>0": "a b"} {
		f, err := ParseFilter(expr)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range Select(f, pods, PendingRow) {
			got = append(got, p.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %q", expr, got, want)
		}
	}
}

func anyNodes(t *rapid.T) []state.Node {
	n := rapid.IntRange(0, 30).Draw(t, "nodes")
	out := make([]state.Node, n)
	usage := func(label string) state.Usage {
		return state.Usage{Requested: rapid.Int64Range(0, 5).Draw(t, label), Allocatable: rapid.Int64Range(0, 4).Draw(t, label)}
	}
	for i := range out {
		out[i] = state.Node{
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

func TestSortReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySort.Draw(t, "sort")
		if got, err := ParseSort(s.String()); err != nil || got != s {
			t.Fatalf("%v became %v, %v", s, got, err)
		}
	})
}

// TestFilterChooses: the rows that pass keep their order, and the negation of one term lets exactly
// the other rows pass.
func TestFilterChooses(t *testing.T) {
	term := rapid.SampledFrom([]string{"node", "node-1", "ready", "notready", "a", "cpu>50%", "mem<=1", "gpu=0", "pods>=2", "zzz"})
	rapid.Check(t, func(t *rapid.T) {
		in, expr := anyNodes(t), term.Draw(t, "term")
		yes, err := ParseFilter(expr)
		if err != nil {
			t.Fatal(err)
		}
		no, err := ParseFilter("!" + expr)
		if err != nil {
			t.Fatal(err)
		}
		in = slices.Clone(in)
		pass, fail := Select(yes, in, NodeRow), Select(no, in, NodeRow)
		if len(pass)+len(fail) != len(in) {
			t.Fatalf("%q passes %d, its negation %d of %d", expr, len(pass), len(fail), len(in))
		}
		merged := append(slices.Clone(pass), fail...)
		slices.SortFunc(merged, func(a, b state.Node) int { return state.CompareNatural(a.Name, b.Name) })
		if names(merged) != names(in) {
			t.Fatalf("%q: %s and %s do not make up %s", expr, names(pass), names(fail), names(in))
		}
		both, err := ParseFilter(expr + " !" + expr)
		if err != nil || len(Select(both, in, NodeRow)) != 0 {
			t.Fatalf("%q and its negation pass something", expr)
		}
	})
}

func FuzzParseSort(f *testing.F) {
	for _, s := range []string{"", "cpu", "name:desc", ":", "mem:ASC", "x:y:z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseSort(s)
		if err != nil {
			return
		}
		if back, err := ParseSort(got.String()); err != nil || back != got {
			t.Errorf("%q is %v, which reads back as %v, %v", s, got, back, err)
		}
	})
}

func FuzzParseFilter(f *testing.F) {
	for _, s := range []string{"", "node ready", "!x", "cpu>80%", "mem<=16Gi", "gpu=0 !pods>3", "cpu>1e999", "mem>-5", "cpu>=%", "İ>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		filter, err := ParseFilter(s)
		if err != nil {
			if err.Error() == "" {
				t.Errorf("%q: an error without words", s)
			}
			return
		}
		pass := Select(filter, slices.Clone(nodes), NodeRow)
		if filter.Empty() != (strings.TrimSpace(s) == "") {
			t.Errorf("%q: empty is %v", s, filter.Empty())
		}
		if filter.Empty() && len(pass) != len(nodes) {
			t.Errorf("%q drops nodes without saying anything", s)
		}
		if again := Select(filter, pass, NodeRow); len(again) != len(pass) {
			t.Errorf("%q: what has passed does not pass again", s)
		}
	})
}

func BenchmarkSort(b *testing.B) {
	many := make([]state.Node, 1000)
	for i := range many {
		many[i] = state.Node{Name: fmt.Sprintf("node-%d", i), CPU: state.Usage{Requested: int64(i * 7919 % 64_000), Allocatable: 64_000}}
	}
	work := make([]state.Node, len(many))
	b.ReportAllocs()
	for b.Loop() {
		copy(work, many)
		By(CPU).Apply(work)
	}
}
