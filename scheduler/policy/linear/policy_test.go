package linear

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy/policytest"
)

// The features of two nodes are computed by hand.
func TestFeatures(t *testing.T) {
	full := cluster.Resources{MilliCPU: 8000, Memory: 8 << 30, Pods: 10}
	busy := &cluster.Node{Allocatable: full}
	busy.Add(cluster.Resources{MilliCPU: 4000, Memory: 2 << 30, Pods: 1})
	empty := &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 24000, Memory: 24 << 30, Pods: 10}}
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 2000, Memory: 1 << 30, Pods: 1}}
	s := &cluster.Snapshot{Nodes: []*cluster.Node{busy, empty}}
	var view view
	view.look(s.Nodes, pod)
	x := make([]float64, len(Features))
	view.features(s, 0, x)
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
	if view.features(s, 1, x); x[7] != 1 || math.Abs(x[8]-math.Log2(1.5)) > 1e-12 {
		t.Errorf("the empty node: %v", x)
	}
}

// The feature energy is minus the watts that a placement adds, relative to what a node draws at full load on average. A
// machine that sleeps wakes.
func TestEnergyFeature(t *testing.T) {
	sleep := 5.0
	full := cluster.Resources{MilliCPU: 10_000, Memory: 8 << 30, Pods: 10}
	asleep := &cluster.Node{Allocatable: full, Power: &cluster.PowerModel{Idle: 20, Full: 100, Sleep: &sleep}}
	awake := &cluster.Node{Allocatable: full, Power: &cluster.PowerModel{Idle: 100, Full: 300}}
	awake.Add(cluster.Resources{MilliCPU: 1000, Pods: 1})
	s := &cluster.Snapshot{Nodes: []*cluster.Node{asleep, awake}}
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Pods: 1}}
	weights := make([]float64, len(Features))
	weights[energyFeature] = 1
	p := fatal.Value(New("energy", weights))(t)
	scores := make([]float32, 2)
	fatal.If(t, p.Score(s, pod, []int32{0, 1}, scores))
	if want := []float32{-(28 - 5) / 200., -20 / 200.}; math.Abs(float64(scores[0]-want[0])) > 1e-6 ||
		math.Abs(float64(scores[1]-want[1])) > 1e-6 {
		t.Errorf("scores %v, want %v", scores, want)
	}
	x := []float64{9, 9, 9, 9, 9, 9}
	newMachineView(s, pod).features(asleep, x)
	// The machines draw 10 and 30 W a core, and a twentieth of their CPU is used. The pod uses what it requests.
	want := []float64{-(28 - 5) / 200., -1, -5 * (0.05 - 0.4), 0, 1, 0}
	if d := cmp.Diff(want, x, cmpopts.EquateApprox(0, 1e-9)); d != "" {
		t.Error(d)
	}
	pod.Requests.MilliCPU = 9000
	newMachineView(s, pod).features(awake, x)
	if math.Abs(x[5]-2) > 1e-9 || x[4] != 0 {
		t.Errorf("a machine that is used in full: %v", x)
	}
}

// Whatever has changed since the last decision, scores are those of a policy that sees the nodes for the first time.
func TestKeepsNothingStale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := func(label string) cluster.Resources {
			return cluster.Resources{MilliCPU: rapid.Int64Range(0, 5000).Draw(t, label+" cpu"), Memory: rapid.Int64Range(0, 9).Draw(t, label+" memory") << 29, Pods: 1}
		}
		node := func() *cluster.Node {
			return &cluster.Node{Version: cluster.NextVersion(), Unschedulable: rapid.Bool().Draw(t, "cordoned"),
				Allocatable: cluster.Resources{MilliCPU: 4000 * rapid.Int64Range(0, 3).Draw(t, "offers"), Memory: 8 << 30, Pods: 10}}
		}
		s, kept := &cluster.Snapshot{Nodes: []*cluster.Node{node(), node()}}, Rule()
		for range rapid.IntRange(1, 20).Draw(t, "decisions") {
			switch at := rapid.IntRange(0, len(s.Nodes)-1).Draw(t, "at"); rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				s.Nodes = slices.Insert(s.Nodes, at, node())
			case 1:
				s.Nodes[at] = node()
			case 2:
				s.Nodes = slices.Delete(s.Nodes, at, min(at+1, len(s.Nodes)-1))
			default:
				s.Nodes[at].Add(amount("running"))
			}
			pod, rows := &cluster.Pod{Requests: amount("pod")}, policytest.Rows(len(s.Nodes))
			got, want := make([]float32, len(rows)), make([]float32, len(rows))
			fatal.If(t, kept.Score(s, pod, rows, got))
			fatal.If(t, kept.Named("fresh").Score(s, pod, rows, want))
			if d := cmp.Diff(want, got, cmpopts.EquateNaNs()); d != "" {
				t.Fatal(d)
			}
		}
	})
}

// The features of usage are computed by hand. A network's use is a third of its capacity on the busy node, and CPU is
// used less than requested.
func TestUsageFeatures(t *testing.T) {
	node := func(cpu, network float64) *cluster.Node {
		n := &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 8000, Memory: 8 << 30, Pods: 10}, Usage: &cluster.NodeUsage{}}
		n.Usage.Known[cluster.UsedCPU], n.Usage.Known[cluster.NetworkOut] = true, true
		n.Usage.Capacity[cluster.NetworkOut] = 300
		n.Usage.Measured[cluster.UsedCPU] = cluster.Statistics{Mean: cpu, HourMax: 2 * cpu, Deviation: cpu / 2}
		n.Usage.Measured[cluster.NetworkOut] = cluster.Statistics{Mean: network, HourMax: network}
		return n
	}
	busy, idle := node(2000, 100), node(0, 0)
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 4000, Pods: 1}, Usage: &cluster.PodUsage{}}
	pod.Usage.Known[cluster.UsedCPU], pod.Usage.Known[cluster.NetworkOut] = true, true
	pod.Usage.Measured[cluster.UsedCPU].Mean, pod.Usage.Measured[cluster.NetworkOut].Mean = 800, 200
	view := newUsageView(&cluster.Snapshot{Nodes: []*cluster.Node{busy, idle}}, pod)
	for _, c := range []struct {
		node *cluster.Node
		want []float64
	}{
		{busy, []float64{-2 * (0.1/2 + (200./300)/2), 1, 1, 0.125}},
		{idle, []float64{2 * (0.1/2 + 0), 200. / 300, 200. / 300, 0}}, // network: from 1/3 and 0 to 1/3 and 2/3
	} {
		x := []float64{9, 9, 9, 9}
		view.features(c.node, x)
		for i, name := range UsageFeatures {
			if math.Abs(x[i]-c.want[i]) > 1e-9 {
				t.Errorf("%s is %v, want %v", name, x[i], c.want[i])
			}
		}
	}
}

func TestLinearFile(t *testing.T) {
	want := Tuned("linear")
	want.Tuning = &Tuning{Command: "gnnsched tune", Version: "v", Scenario: "family", Seed: 3, Generations: 16, HeldOut: &HeldOut{
		FirstSeed: 1, Episodes: 20, Means: map[string]map[string]float64{"tuned": {"cost": 0.5}},
	}}
	text := fatal.Value(json.Marshal(want))(t)
	again, err := parse(text)
	if err != nil || again.Name() != "linear" {
		t.Fatal(again, err)
	}
	if d := cmp.Diff(want, again, cmp.AllowUnexported(Policy{}), cmpopts.IgnoreFields(Policy{}, "last")); d != "" {
		t.Errorf("-written +read:\n%s", d)
	}
	for text, want := range map[string]string{
		`{"name":"x","weights":{"luck":1}}`: "luck",
		`{"name":"x","weights":[1]}`:        "cannot unmarshal",
		`{"name":"x","wights":{}}`:          "unknown field",
		`{`:                                 "unexpected",
		`{"weights":{"balance":3.4e38}}`:    "give numbers from -1e+12 to 1e+12",
	} {
		if _, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", text, err, want)
		}
	}
	if _, err := New("x", make([]float64, 2)); err == nil {
		t.Error("two weights are accepted")
	}
}

// The weights of rule are those of linear with 36 changes. The scores of four nodes are computed from a reading's features by the formula, and
// on 256 nodes they are linear's.
func TestRule(t *testing.T) {
	rule, fixed, numbers := Rule(), Tuned("linear"), 0
	for j, w := range rule.weights {
		if w != fixed.weights[j] || (rule.changes.by[j] != nil) != (w != 0) {
			t.Errorf("%s has the weight %v, linear's is %v", Features[j], w, fixed.weights[j])
		}
		numbers += len(rule.changes.by[j])
	}
	if numbers != 36 || rule.Fixed() || !fixed.Fixed() || rule.Named("x").Fixed() {
		t.Errorf("%d changes", numbers)
	}
	pod, pods := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 500, Memory: 1 << 30, Pods: 1}}, int64(0)
	var s cluster.Snapshot
	for range 256 {
		n := &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 8000, Memory: 32 << 30, Pods: 110}}
		n.Add(cluster.Resources{MilliCPU: 1000 * (1 + pods%4), Memory: 8 << 30, Pods: 1})
		s.Nodes, pods = append(s.Nodes, n), pods+1
	}
	rows, scores, others := []int32{0, 1}, make([]float32, 2), make([]float32, 2)
	fatal.If(t, rule.Score(&s, pod, rows, scores))
	fatal.If(t, fixed.Score(&s, pod, rows, others))
	if scores[0] != others[0] || scores[1] != others[1] {
		t.Errorf("on 256 nodes rule scores %v, linear %v", scores, others)
	}
	s.Nodes, s.Preferred = s.Nodes[:4], 1
	fatal.If(t, rule.Score(&s, pod, rows, scores))
	preferred, load := math.Log2(1./4)/4, (0.125+0.25+0.375+0.5)/4+0.25-1
	for i, got := range scores {
		r, want := rule.Reading(&s, pod, rows, i), 0.0
		for j, by := range rule.changes.by {
			if by != nil {
				want += rule.weights[j] * (1 + by[0] + by[1]*preferred + by[2]*load + by[3]*preferred*load) * float64(r.Features[j])
			}
		}
		if math.Abs(want-float64(got)) > 1e-5*(1+math.Abs(want)) {
			t.Errorf("node %d: score %v, want %v", i, got, want)
		}
	}
}

// A file may have changes of weights; they survive writing and reading.
func TestFileWithChanges(t *testing.T) {
	text, err := json.Marshal(Rule())
	fatal.If(t, err)
	again, err := parse(text)
	fatal.If(t, err)
	if d := cmp.Diff(Rule().changes.by, again.changes.by); d != "" {
		t.Error(d)
	}
	for text, want := range map[string]string{
		`{"weights":{"used":1},"changes":{"luck":{}}}`:           "luck",
		`{"weights":{"used":1},"changes":{"used":{"moon":1}}}`:   "moon",
		`{"weights":{"used":1},"changes":{"used":{"load":1e9}}}`: "give numbers from -1000 to 1000",
	} {
		if _, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"name":"linear","weights":{"balance":1}}`))
	f.Add([]byte(`{"name":"rule","weights":{"balance":1},"changes":{"balance":{"load":0.5}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := parse(text)
		if err != nil {
			return
		}
		again := fatal.Value(json.Marshal(l))(t)
		if _, err := parse(again); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
	})
}

// A file without weights is no policy, though it is JSON: its author named the wrong file.
func TestParseRefusesNothing(t *testing.T) {
	for _, text := range []string{"{}", "null", `{"name":"x"}`, `{"name":"x","weights":{}}`, `{"name":"x","weights":{"used":1}} {}`, "[]",
		""} {
		if p, err := parse([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, p)
		}
	}
}

// A reading has the features and the weights that make the score of the last decision.
func TestReading(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(append(TunedNames(), "rule")).Draw(t, "policy")
		p := Rule()
		if name != "rule" {
			p = Tuned(name)
		}
		s, pod := policytest.DrawSnapshot(t), &cluster.Pod{Requests: policytest.DrawRequests(t)}
		rows := policytest.DrawCandidates(t, len(s.Nodes))
		scores := policytest.Scores(t, p, s, pod, rows)
		for i, want := range scores {
			r := p.Reading(s, pod, rows, i)
			sum, size := 0.0, 1.0
			for j, x := range r.Features {
				sum += float64(x) * float64(r.Weights[j])
				size += math.Abs(float64(x) * float64(r.Weights[j]))
			}
			if math.Abs(sum-float64(want)) > 1e-5*size {
				t.Fatalf("candidate %d: the reading gives %v, the score is %v", i, sum, want)
			}
		}
	})
}
