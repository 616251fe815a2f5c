package plugin

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
)

// testView returns a view of two nodes with GPUs and a pending pod that requests a share.
func testView(typical *fragmentation.Typical) view {
	return view{
		snapshot: &cluster.Snapshot{Nodes: []*cluster.Node{twoGPUs("a"), twoGPUs("b")}},
		pod:      &cluster.Pod{Name: "p", Requests: share(300)}, rows: []int32{0, 1}, typical: typical, began: time.Now(),
	}
}

func twoGPUs(name string) *cluster.Node {
	return &cluster.Node{
		Name: name, Allocatable: cluster.Resources{MilliCPU: 8000, Memory: 1 << 30, GPU: 2, Pods: 10},
		GPUModel: "T4", GPUs: make([]int64, 2),
	}
}

// A decider keeps its policy from one decision to the next, and makes a new one for other typical pods
// and after forget.
func TestDecidersKeepTheirPolicy(t *testing.T) {
	first, second := fragmentation.NewTypical([]fragmentation.Demand{{Requests: share(500), Count: 1}}), fragmentation.NewTypical(nil)
	fgd, err := heuristic.Find("fgd")
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	h := &heuristicDecider{Heuristic: fgd}
	inner := h.New
	h.New = func(s policy.Setting) policy.Policy { made++; return inner(s) }
	scores := make([]float32, 2)
	for i, c := range []struct {
		typical *fragmentation.Typical
		forget  bool
		want    int // policies made so far
	}{{first, false, 1}, {first, false, 1}, {second, false, 2}, {second, true, 3}} {
		if c.forget {
			h.forget()
		}
		if err := h.score(testView(c.typical), scores); err != nil || made != c.want {
			t.Errorf("decision %d: %d policies were made, want %d; %v", i, made, c.want, err)
		}
	}
}

// Without a network every decision fails, and says why.
func TestNoDecider(t *testing.T) {
	var d noDecider
	if err := d.score(testView(nil), make([]float32, 2)); !errors.Is(err, errNoNetwork) || reasonOf(err) != reasonNoModel {
		t.Errorf("score: %v", err)
	}
	if on, err := d.devices(testView(nil), false); on != 0 || !errors.Is(err, errNoNetwork) {
		t.Errorf("devices: %v, %v", on, err)
	}
}

// A network that misses its deadline names it.
func TestDeadlineIsNamed(t *testing.T) {
	d := &networkDecider{net: load(t, untrained(t, 1, nil)), deadline: time.Nanosecond}
	v := testView(nil)
	v.began = time.Now().Add(-time.Hour)
	err := d.score(v, make([]float32, 2))
	if !errors.Is(err, infer.ErrDeadline) || !strings.Contains(err.Error(), "1ns") || reasonOf(err) != reasonDeadline {
		t.Errorf("%v", err)
	}
}
