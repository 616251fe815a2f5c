package plugin

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"pgregory.net/rapid"

	"gnnsched/gnn/infer"
	"gnnsched/internal/fatal"
)

func fallbackCount(t rapid.TB, profile, reason string) float64 {
	t.Helper()
	v, err := testutil.GetCounterMetricValue(fallbacks.WithLabelValues(profile, reason))
	fatal.If(t, err)
	return v
}

// If the network fails, the pod gets a node by the default profile's ranking, and the decision is
// counted under its reason.
func TestFallbackRanksLikeTheDefaultProfile(t *testing.T) {
	for _, c := range []struct {
		reason string
		args   Args
		spoil  func(testing.TB, *learnedScore)
	}{
		{reason: "no_model", args: Args{Checkpoint: filepath.Join(t.TempDir(), "none.safetensors")}},
		{reason: "deadline", args: Args{Checkpoint: untrained(t, 1, nil), Deadline: metav1.Duration{Duration: time.Nanosecond}}},
		{reason: "not_finite", args: Args{Checkpoint: untrained(t, 1, nil)}, spoil: explode},
		{reason: "panic", args: Args{Checkpoint: untrained(t, 1, nil)}, spoil: func(_ testing.TB, p *learnedScore) {
			p.active.store(&networkDecider{net: new(infer.Network), deadline: time.Minute})
		}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			profile := "fallback-" + c.reason
			b := newBed(t, profile, c.args, service())
			if c.spoil != nil {
				c.spoil(t, b.plugin)
			}
			compared := 0
			rapid.Check(t, func(t *rapid.T) {
				state := drawState(t)
				defer b.load(t, state)()
				before := fallbackCount(t, profile, c.reason)
				result, err := b.decide(profile, state.waiting)
				if err != nil {
					t.Skip("fits nowhere")
				}
				if result.FeasibleNodes > 1 && fallbackCount(t, profile, c.reason) != before+1 {
					t.Fatalf("counted %v times under %s, want once", fallbackCount(t, profile, c.reason)-before, c.reason)
				}
				compareWithDefault(t, b, profile, state)
				compared++
			})
			if compared == 0 {
				t.Error("no state was compared")
			}
		})
	}
}

// compareWithDefault compares the profile's scores with the default profile's totals: the order is
// kept, and the only 100 is on one of the default profile's best nodes.
func compareWithDefault(t *rapid.T, b *bed, profile string, state clusterState) {
	want, got := b.totals(t, defaultProfile, state.waiting), b.totals(t, profile, state.waiting)
	nodes, cycle := b.filter(t, profile, state.waiting)
	raw := make([]float32, len(nodes))
	fatal.If(t, b.plugin.upstream.score(b.ctx, &scoring{state: cycle, pod: state.waiting, nodes: nodes, raw: raw}))
	best := want[0].TotalScore
	for _, w := range want {
		best = max(best, w.TotalScore)
	}
	for i, w := range want {
		if w.Name != nodes[i].Node().Name || w.Name != got[i].Name {
			t.Fatalf("node %d is %s, %s and %s", i, w.Name, nodes[i].Node().Name, got[i].Name)
		}
		if int64(raw[i]) != w.TotalScore {
			t.Fatalf("%s: total %v, the default profile's is %v (%+v)", w.Name, raw[i], w.TotalScore, w.Scores)
		}
		if got[i].TotalScore == 100 && w.TotalScore != best {
			t.Fatalf("%s is chosen with %d, the default profile's best has %d", w.Name, w.TotalScore, best)
		}
		for j := range want {
			if w.TotalScore > want[j].TotalScore && got[i].TotalScore < got[j].TotalScore {
				t.Fatalf("%s and %s changed places: %d and %d became %d and %d", w.Name, want[j].Name, w.TotalScore, want[j].TotalScore,
					got[i].TotalScore, got[j].TotalScore)
			}
		}
	}
}

// If a profile has an upstream plugin's filter part switched off, that plugin cannot score. The others
// still do, and the pod does not fail.
func TestFallbackLeavesOutWhatFails(t *testing.T) {
	b := newBed(t, "gnn", Args{Checkpoint: untrained(t, 1, nil)})
	state := rapid.Custom(drawState).Example(3)
	state.waiting.Spec.Containers[0].Resources.Requests = nil
	b.load(t, state)
	if _, err := b.decide(defaultProfile, state.waiting); err != nil {
		t.Fatal(err)
	}
	nodes, cycle := b.filter(t, "gnn", state.waiting)
	whole, part := make([]float32, len(nodes)), make([]float32, len(nodes))
	fatal.If(t, b.plugin.upstream.score(b.ctx, &scoring{state: cycle, pod: state.waiting, nodes: nodes, raw: whole}))
	err := b.plugin.upstream.score(b.ctx, &scoring{state: framework.NewCycleState(), pod: state.waiting, nodes: nodes, raw: part})
	if err == nil || !strings.Contains(err.Error(), names.DynamicResources) {
		t.Fatalf("without the filters' state: %v, want an error that names DynamicResources", err)
	}
	if d := cmp.Diff(whole, part); d != "" { // a pod without claims: DynamicResources adds nothing
		t.Error(d)
	}
}

// The plugins and weights equal those of the default profile in the Kubernetes version of this build.
// VolumeBinding scores only with an alpha feature and is left out.
func TestFallbackRunsWhatTheDefaultProfileRuns(t *testing.T) {
	b := newBed(t, "gnn", Args{Checkpoint: untrained(t, 1, nil)})
	want, got := map[string]int64{}, map[string]int64{}
	for _, p := range b.sched.Profiles[defaultProfile].ListPlugins().Score.Enabled {
		want[p.Name] = int64(p.Weight)
	}
	delete(want, names.VolumeBinding)
	for _, p := range b.plugin.upstream.plugins {
		got[p.Name()] = p.weight
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
