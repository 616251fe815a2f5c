package plugin

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/policy/preference"
)

// What the plugin keeps between decisions does not show: on one cluster after another, its scores
// equal those of the same network in a new policy. The chosen node is the network's best.
func TestScoresAreTheNetworks(t *testing.T) {
	const profile = "decides"
	b := newBed(t, profile, Args{Checkpoint: untrained(t, 5, nil), Preferences: preference.Off}, service())
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		state := drawState(t)
		defer b.load(t, state)()
		result, err := b.decide(profile, state.waiting)
		if err != nil {
			t.Skip("fits nowhere")
		}
		nodes, _ := b.filter(t, profile, state.waiting)
		want, best := afresh(t, b, state.waiting, nodes)
		got := map[string]int64{}
		for _, s := range b.totals(t, profile, state.waiting) {
			got[s.Name] = s.TotalScore
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
		if result.FeasibleNodes > 1 && got[result.SuggestedHost] != 100 {
			t.Fatalf("%s was chosen, the network likes %s", result.SuggestedHost, best)
		}
		compared++
	})
	if compared == 0 {
		t.Error("no state was compared")
	}
	for _, r := range []string{reasonNoModel, reasonDeadline, reasonNotFinite, reasonPanic, reasonSnapshot} {
		if n := fallbackCount(t, profile, r); n != 0 {
			t.Errorf("%v decisions fell back: %s", n, r)
		}
	}
}

// A new network decides from the next pod on, and a decision that failed has no effect on later ones.
func TestDecisionsAfterAChange(t *testing.T) {
	const profile = "changes"
	b := newBed(t, profile, Args{Checkpoint: untrained(t, 5, nil), Preferences: preference.Off})
	state := rapid.Custom(drawState).Example(3)
	state.waiting.Spec.Containers[0].Resources.Requests = nil
	b.load(t, state)
	expect := func(step string, fell float64) {
		t.Helper()
		if _, err := b.decide(profile, state.waiting); err != nil {
			t.Fatal(err)
		}
		if n := fallbackCount(t, profile, reasonPanic); n != fell {
			t.Errorf("%s: %v decisions fell back, want %v", step, n, fell)
		}
		nodes, _ := b.filter(t, profile, state.waiting)
		want, _ := afresh(t, b, state.waiting, nodes)
		for _, s := range b.totals(t, profile, state.waiting) {
			if s.TotalScore != want[s.Name] {
				t.Errorf("%s: %s has %d, want %d", step, s.Name, s.TotalScore, want[s.Name])
			}
		}
	}
	expect("first", 0)
	b.plugin.active.store(&networkDecider{net: load(t, untrained(t, 6, nil)), deadline: time.Minute})
	expect("swapped", 0)
	b.plugin.active.load().(*networkDecider).made = neural.New("broken", new(infer.Network), nil)
	expect("broke off", 1)
	b.plugin.mirror.snapshot.Nodes = b.plugin.mirror.snapshot.Nodes[:1]
	expect("mirror broken", 2)
}

func load(t *testing.T, file string) *infer.Network {
	t.Helper()
	c, err := checkpoint.Load(file)
	fatal.If(t, err)
	n, err := infer.New(c)
	fatal.If(t, err)
	return n
}

// afresh scores nodes with a new mirror and a new policy.
func afresh(t rapid.TB, b *bed, pod *v1.Pod, nodes []fwk.NodeInfo) (scores map[string]int64, best string) {
	infos, err := b.plugin.handle.SnapshotSharedLister().NodeInfos().List()
	fatal.If(t, err)
	m := mirror{reserved: b.reservations()}
	m.sync(infos, false)
	rows := make([]int32, len(nodes))
	raw := make([]float32, len(nodes))
	list := make([]int8, len(nodes))
	for i, n := range nodes {
		rows[i] = m.row[n.Node().Name]
	}
	waiting := convertPod(pod)
	fatal.If(t, neural.New("afresh", b.plugin.active.load().(*networkDecider).net, nil).Score(&m.snapshot, &waiting, rows, raw))
	toNodeScores(raw, list, func(i int) string { return nodes[i].Node().Name }, false)
	scores = map[string]int64{}
	for i, n := range nodes {
		scores[n.Node().Name] = int64(list[i])
		if list[i] == 100 {
			best = n.Node().Name
		}
	}
	return scores, best
}

// Score returns an error if PreScore was not configured.
func TestScoreWithoutPreScore(t *testing.T) {
	info := framework.NewNodeInfo()
	info.SetNode(&v1.Node{})
	if _, st := new(learnedScore).Score(context.Background(), framework.NewCycleState(), &v1.Pod{}, info); st.IsSuccess() {
		t.Error("no error")
	}
}
