package policy

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
)

// With the weight of zones alone, the linear policy is the one that is greedy for them.
func TestLinearZonesIsGreedy(t *testing.T) {
	weights := make([]float64, len(LinearFeatures))
	weights[9] = 1
	linear, err := NewLinear("x", weights)
	if err != nil {
		t.Fatal(err)
	}
	var s cluster.Snapshot
	for i, zone := range []string{"a", "a", "b", "b", "c", ""} {
		n := &cluster.Node{Zone: zone, Allocatable: cluster.Resources{MilliCPU: 8000, Memory: 32 << 30, Pods: 110}}
		n.Add(cluster.Resources{MilliCPU: int64(500 * i), Memory: 3 << 30, Pods: 1})
		s.Nodes = append(s.Nodes, n)
	}
	pod, rows := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 2000, Memory: 1 << 30}}, []int32{0, 1, 2, 3, 4, 5}
	a, b := make([]float32, len(rows)), make([]float32, len(rows))
	if err := linear.Score(&s, pod, rows, a); err != nil {
		t.Fatal(err)
	}
	if err := NewGreedy(objective.Mix{{Term: objective.Zones{}, Weight: 1}}).Score(&s, pod, rows, b); err != nil {
		t.Fatal(err)
	}
	for i := range a {
		if math.Abs(float64(a[i]-b[i])) > 1e-5 {
			t.Errorf("node %d: %v, greedy %v", i, a[i], b[i])
		}
	}
}

// With the weight of balance alone, the linear policy is the greedy one.
func TestLinearBalanceIsGreedy(t *testing.T) {
	weights := make([]float64, len(LinearFeatures))
	weights[0] = 1
	linear, err := NewLinear("x", weights)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		var s cluster.Snapshot
		var rows []int32
		for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
			n := &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 16_000 << rapid.IntRange(0, 2).Draw(t, "size"), Memory: 64 << 30, Pods: 110}}
			for range rapid.IntRange(0, 3).Draw(t, "pods") {
				n.Add(cluster.Resources{MilliCPU: int64(rapid.IntRange(1, 4000).Draw(t, "cpu")), Memory: 1 << 30, Pods: 1})
			}
			s.Nodes, rows = append(s.Nodes, n), append(rows, int32(i))
		}
		pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 500, Memory: 2 << 30, Pods: 1}}
		a, b := make([]float32, len(rows)), make([]float32, len(rows))
		if err := linear.Score(&s, pod, rows, a); err != nil {
			t.Fatal(err)
		}
		if err := (GreedyBalance{}).Score(&s, pod, rows, b); err != nil {
			t.Fatal(err)
		}
		for i := range a {
			if math.Abs(float64(a[i]-b[i])) > 1e-5 {
				t.Fatalf("candidate %d: %v, greedy %v", i, a[i], b[i])
			}
		}
	})
}

// Each feature of two nodes, worked out by hand.
func TestLinearFeatures(t *testing.T) {
	full := cluster.Resources{MilliCPU: 8000, Memory: 8 << 30, Pods: 10}
	busy := &cluster.Node{Allocatable: full}
	busy.Add(cluster.Resources{MilliCPU: 4000, Memory: 2 << 30, Pods: 1})
	empty := &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 24000, Memory: 24 << 30, Pods: 10}}
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 2000, Memory: 1 << 30, Pods: 1}}
	view := newLinearView(&cluster.Snapshot{Nodes: []*cluster.Node{busy, empty}}, pod)
	x := make([]float64, len(LinearFeatures))
	view.features(busy, x)
	for name, want := range map[string]float64{
		"balance": -2 * (0.375 - 0.25 + 0.1875 - 0.125), // both deviations grow by half
		"used":    (0.75 + 0.375) / 2,
		"skew":    -2 * (0.1875 - 0.125),
		"share":   0.25,
		"room":    1, // one pod of 4 CPU and 2 GiB fits before, none after
		"empty":   0,
		"size":    -1,
		"match":   1, // half the mean pod on half the mean node
		"over":    (0.25*0.25-0.5*0.5)/(0.25+0.01) + (0.125*0.125-0.25*0.25)/(0.125+0.01),
	} {
		for i, f := range LinearFeatures {
			if f == name && math.Abs(x[i]-want) > 1e-9 {
				t.Errorf("%s is %v, want %v", name, x[i], want)
			}
		}
	}
	if view.features(empty, x); x[7] != 1 || math.Abs(x[8]-math.Log2(1.5)) > 1e-12 {
		t.Errorf("the empty node: %v", x)
	}
}

func TestLinearFile(t *testing.T) {
	want := Tuned("linear")
	want.Tuning = &Tuning{Command: "gnnsched tune", Version: "v", Scenario: "family", Seed: 3, Generations: 16, HeldOut: &HeldOut{
		FirstSeed: 1, Episodes: 20, Means: map[string]map[string]float64{"tuned": {"cost": 0.5}},
	}}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseLinear(text)
	if err != nil || again.Name() != "linear" {
		t.Fatal(again, err)
	}
	if d := cmp.Diff(want, again, cmp.AllowUnexported(Linear{})); d != "" {
		t.Errorf("-written +read:\n%s", d)
	}
	for text, want := range map[string]string{
		`{"name":"x","weights":{"luck":1}}`: "luck",
		`{"name":"x","weights":[1]}`:        "cannot unmarshal",
		`{"name":"x","wights":{}}`:          "unknown field",
		`{`:                                 "unexpected",
	} {
		if _, err := ParseLinear([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", text, err, want)
		}
	}
	if _, err := NewLinear("x", make([]float64, 2)); err == nil {
		t.Error("two weights are accepted")
	}
}

func TestFindLinear(t *testing.T) {
	name := FromWeights("linear-pack.json")
	h, err := FindHeuristic(name)
	if err != nil || h.Name != name || h.New(Setting{}).Name() != name || h.RandomTies {
		t.Fatal(h, err)
	}
	if d := cmp.Diff(Tuned("linear-pack").Weights(), h.New(Setting{}).(*Linear).Weights()); d != "" {
		t.Error(d)
	}
	if _, err := FindHeuristic(FromWeights("none.json")); err == nil || !strings.Contains(err.Error(), "none.json") {
		t.Error("a file that there is not:", err)
	}
}

func FuzzParseLinear(f *testing.F) {
	f.Add([]byte(`{"name":"linear","weights":{"balance":1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := ParseLinear(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseLinear(again); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
	})
}
