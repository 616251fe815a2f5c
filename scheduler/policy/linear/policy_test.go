package linear

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/cluster"
)

// The features of two nodes are computed by hand.
func TestFeatures(t *testing.T) {
	full := cluster.Resources{MilliCPU: 8000, Memory: 8 << 30, Pods: 10}
	busy := &cluster.Node{Allocatable: full}
	busy.Add(cluster.Resources{MilliCPU: 4000, Memory: 2 << 30, Pods: 1})
	empty := &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 24000, Memory: 24 << 30, Pods: 10}}
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 2000, Memory: 1 << 30, Pods: 1}}
	view := newView(&cluster.Snapshot{Nodes: []*cluster.Node{busy, empty}}, pod)
	x := make([]float64, len(Features))
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
		for i, f := range Features {
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
	again, err := parse(text)
	if err != nil || again.Name() != "linear" {
		t.Fatal(again, err)
	}
	if d := cmp.Diff(want, again, cmp.AllowUnexported(Policy{})); d != "" {
		t.Errorf("-written +read:\n%s", d)
	}
	for text, want := range map[string]string{
		`{"name":"x","weights":{"luck":1}}`: "luck",
		`{"name":"x","weights":[1]}`:        "cannot unmarshal",
		`{"name":"x","wights":{}}`:          "unknown field",
		`{`:                                 "unexpected",
	} {
		if _, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", text, err, want)
		}
	}
	if _, err := New("x", make([]float64, 2)); err == nil {
		t.Error("two weights are accepted")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"name":"linear","weights":{"balance":1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := parse(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(again); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
	})
}
