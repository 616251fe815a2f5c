package preference_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy/preference"
)

func TestModes(t *testing.T) {
	for text, want := range map[string]preference.Mode{`"first"`: preference.First, `"declared"`: preference.Declared,
		`"blend"`: preference.Blend, `"off"`: preference.Off, `false`: preference.Off} {
		var m preference.Mode
		if err := json.Unmarshal([]byte(text), &m); err != nil || m != want || m.Validate() != nil {
			t.Errorf("%s is %q, %v", text, m, err)
		}
	}
	var m preference.Mode
	if err := json.Unmarshal([]byte(`true`), &m); err == nil {
		t.Errorf("true is %q", m)
	}
	if err := preference.Mode("last").Validate(); err == nil ||
		!strings.Contains(err.Error(), `"last"; there are first, declared, blend, off`) {
		t.Error(err)
	}
}

func TestBest(t *testing.T) {
	for _, c := range []struct {
		sums []int64
		want []int32
	}{{nil, nil}, {[]int64{7}, []int32{0}}, {[]int64{1, 3, 2, 3}, []int32{1, 3}}, {[]int64{-2, -2}, []int32{0, 1}}} {
		if d := cmp.Diff(c.want, preference.Best(c.sums, nil)); d != "" {
			t.Errorf("%v: %s", c.sums, d)
		}
	}
}

// Declared leaves out the default topology spread, and Off everything.
func TestWhatCounts(t *testing.T) {
	nodes := []*cluster.Node{{Name: "a"}, {Name: "b"}, {Name: "c", Taints: []cluster.Taint{{Key: "old", Effect: cluster.PreferNoSchedule}}}}
	pod, candidates, running := &cluster.Pod{Owner: "web"}, []int32{0, 1, 2}, []int32{0}
	for mode, want := range map[preference.Mode][]int32{preference.First: {1}, preference.Declared: {0, 1}, preference.Off: nil} {
		if d := cmp.Diff(want, preference.Best(preference.NewScorer(mode, nodes).Sums(pod, candidates, running), nil)); d != "" {
			t.Errorf("%s: %s", mode, d)
		}
	}
}

// A policy's best and worst node differ by a third of what the best and worst by default spreading may. Others than those left are as before.
func TestWeigh(t *testing.T) {
	never := float32(math.Inf(-1))
	for _, c := range []struct {
		name   string
		scores []float32
		left   []int32
		spread []int64
		want   []float32
	}{
		{"by the policy, where spreading makes little difference", []float32{-7, -5, -6}, nil, []int64{90, 60, 100}, []float32{90, 93, 116.5}},
		{"a policy to which all are equal", []float32{4, 4}, nil, []int64{100, 62}, []float32{100, 62}},
		{"nodes that are left", []float32{9, 1, 3, 2}, []int32{1, 3}, []int64{0, 100, 0, 80}, []float32{9, 100, 3, 113}},
		{"none left", []float32{9}, []int32{}, []int64{0}, []float32{9}},
		{"a node that the policy never takes", []float32{never, 1, 3}, nil, []int64{100, 50, 20}, []float32{never, 50, 53}},
		{"none that the policy takes", []float32{never, never}, nil, []int64{100, 50}, []float32{never, never}},
	} {
		preference.Weigh(c.scores, c.left, c.spread)
		if d := cmp.Diff(c.want, c.scores); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// The sum is linear in the weights, and a plugin of weight 0 does not score.
func TestWeights(t *testing.T) {
	nodes := []*cluster.Node{{Name: "a", Zone: "x"}, {Name: "b", Zone: "y"},
		{Name: "c", Zone: "y", Taints: []cluster.Taint{{Key: "old", Effect: cluster.PreferNoSchedule}}}}
	pod, candidates, running := &cluster.Pod{Owner: "web"}, []int32{0, 1, 2}, []int32{0, 0, 1}
	scorer := preference.NewScorer(preference.First, nodes)
	by := func(w preference.Weights) []int64 { return slices.Clone(scorer.SumsBy(w, pod, candidates, running)) }
	spread, taints := by(preference.Weights{Spread: 1}), by(preference.Weights{Taints: 1})
	want := make([]int64, 3)
	for i := range want {
		want[i] = 31*spread[i] + 7*taints[i]
	}
	if d := cmp.Diff(want, by(preference.Weights{Spread: 31, Taints: 7})); d != "" || spread[0] == spread[2] || taints[0] == taints[2] {
		t.Errorf("%v, %v: %s", spread, taints, d)
	}
	if got := by(preference.Weights{}); got != nil {
		t.Errorf("without weights: %v", got)
	}
}

// Three replicas go to three nodes: each is preferred on the nodes that run the fewest of them.
func ExampleScorer() {
	nodes := []*cluster.Node{{Name: "a", Zone: "x"}, {Name: "b", Zone: "x"}, {Name: "c", Zone: "y"}}
	scorer := preference.NewScorer(preference.First, nodes)
	pod, candidates := &cluster.Pod{Name: "web", Owner: "web"}, []int32{0, 1, 2}
	var running []int32
	for range 3 {
		best := candidates
		if sums := scorer.Sums(pod, candidates, running); sums != nil {
			fmt.Print(sums, " ")
			best = preference.Best(sums, nil)
		}
		fmt.Println("on", nodes[best[0]].Name)
		running = append(running, best[0])
	}
	// Output:
	// on a
	// [132 176 200] on c
	// [154 200 154] on b
}
