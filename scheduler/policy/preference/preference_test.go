package preference_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configlatest "k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
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

// lister lets one framework see one snapshot after another.
type lister struct{ *cache.Snapshot }

const ownerLabel = "app"

// upstream returns kube-scheduler's framework with the two plugins that the package copies, with
// upstream's default weights and arguments. Pods of the owners web and db belong to a Service.
func upstream(t *testing.T, sees fwk.SharedLister) framework.Framework {
	metrics.Register()
	cfg := fatal.Value(configlatest.Default())(t)
	profile := cfg.Profiles[0]
	weights := map[string]int32{}
	for _, p := range profile.Plugins.MultiPoint.Enabled {
		weights[p.Name] = p.Weight
	}
	profile.Plugins = &config.Plugins{
		QueueSort: config.PluginSet{Enabled: []config.Plugin{{Name: names.PrioritySort}}},
		Bind:      config.PluginSet{Enabled: []config.Plugin{{Name: names.DefaultBinder}}},
	}
	for _, name := range []string{names.PodTopologySpread, names.TaintToleration} {
		profile.Plugins.PreScore.Enabled = append(profile.Plugins.PreScore.Enabled, config.Plugin{Name: name})
		profile.Plugins.Score.Enabled = append(profile.Plugins.Score.Enabled, config.Plugin{Name: name, Weight: weights[name]})
	}
	client := fake.NewClientset()
	informed := informers.NewSharedInformerFactory(client, 0)
	services := informed.Core().V1().Services().Informer().GetIndexer()
	for _, owner := range []string{"web", "db"} {
		s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: owner, Namespace: "default"},
			Spec: v1.ServiceSpec{Selector: map[string]string{ownerLabel: owner}}}
		fatal.If(t, services.Add(s))
	}
	f := fatal.Value(fwkruntime.NewFramework(t.Context(), plugins.NewInTreeRegistry(), &profile,
		fwkruntime.WithClientSet(client), fwkruntime.WithInformerFactory(informed), fwkruntime.WithSnapshotSharedLister(sees)))(t)
	return f
}

// drawn is a cluster with running pods.
type drawn struct {
	nodes      []*cluster.Node
	owners     [][]string // of the pods on each node
	pending    *cluster.Pod
	candidates []int32
}

func draw(t *rapid.T) (d drawn) {
	taint := cluster.Taint{Key: "old", Effect: cluster.PreferNoSchedule}
	zones := rapid.SampledFrom([][]string{{""}, {"a", "b", "c"}, {"", "a", "b"}}).Draw(t, "zones")
	taints := rapid.SampledFrom([][][]cluster.Taint{{nil}, {nil, {taint}, {taint, {Key: "far", Effect: cluster.PreferNoSchedule}}}}).Draw(t,
		"taints")
	for i := range rapid.IntRange(1, 12).Draw(t, "nodes") {
		n := &cluster.Node{Name: fmt.Sprintf("n%d", i), Allocatable: cluster.Resources{MilliCPU: 64_000, Memory: 1 << 40, Pods: 110}}
		n.Zone = rapid.SampledFrom(zones).Draw(t, "zone")
		n.Taints = rapid.SampledFrom(taints).Draw(t, "taint")
		d.nodes = append(d.nodes, n)
		d.owners = append(d.owners, rapid.SliceOfN(rapid.SampledFrom([]string{"", "web", "db"}), 0, 8).Draw(t, "pods"))
		if rapid.IntRange(0, 3).Draw(t, "fits") > 0 {
			d.candidates = append(d.candidates, int32(i))
		}
	}
	d.pending = &cluster.Pod{Name: "pending", Namespace: "default", Owner: rapid.SampledFrom([]string{"", "web"}).Draw(t, "owner")}
	if rapid.Bool().Draw(t, "tolerates") {
		d.pending.Tolerations = []cluster.Toleration{{Key: "old", Exists: true}}
	}
	return d
}

// running returns the rows of the nodes with pods of the pending pod's owner, once for each pod.
func (d drawn) running() (rows []int32) {
	for i, owners := range d.owners {
		for _, o := range owners {
			if o != "" && o == d.pending.Owner {
				rows = append(rows, int32(i))
			}
		}
	}
	return rows
}

// objects returns the cluster as Kubernetes objects.
func (d drawn) objects() (nodes []*v1.Node, pods []*v1.Pod) {
	for i, n := range d.nodes {
		labels := kube.NodeLabels(n)
		if labels == nil {
			labels = map[string]string{}
		}
		labels[v1.LabelHostname] = n.Name
		if n.Zone != "" {
			labels[v1.LabelTopologyZone] = n.Zone
		}
		nodes = append(nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels},
			Spec: v1.NodeSpec{Taints: kube.Taints(n.Taints)}})
		for k, owner := range d.owners[i] {
			p := pod(fmt.Sprintf("%s-%d", n.Name, k), &cluster.Pod{Owner: owner})
			p.Spec.NodeName = n.Name
			pods = append(pods, p)
		}
	}
	return nodes, pods
}

func pod(name string, p *cluster.Pod) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Labels: map[string]string{ownerLabel: p.Owner}},
		Spec:       v1.PodSpec{Tolerations: kube.Tolerations(p.Tolerations)},
	}
}

// On any state, the sums are those of upstream's plugins, and nil where these are the same for all
// candidates.
func TestSumsAreUpstreams(t *testing.T) {
	sees := &lister{cache.NewEmptySnapshot()}
	f := upstream(t, sees)
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		nodes, pods := d.objects()
		sees.Snapshot = cache.NewSnapshot(pods, nodes)
		var infos []fwk.NodeInfo
		for _, row := range d.candidates {
			info := fatal.Value(sees.NodeInfos().Get(d.nodes[row].Name))(t)
			infos = append(infos, info)
		}
		var want []int64
		differ := false
		if len(infos) > 1 { // otherwise kube-scheduler does not score
			state, pending := framework.NewCycleState(), pod("pending", d.pending)
			if st := f.RunPreScorePlugins(ctx, state, pending, infos); !st.IsSuccess() {
				t.Fatal(st.AsError())
			}
			scores, st := f.RunScorePlugins(ctx, state, pending, infos)
			if !st.IsSuccess() {
				t.Fatal(st.AsError())
			}
			for _, s := range scores {
				want = append(want, s.TotalScore)
				differ = differ || s.TotalScore != scores[0].TotalScore
			}
		}
		s := preference.NewScorer(preference.First, d.nodes)
		for range 2 { // the scorer leaves nothing behind
			got := s.Sums(d.pending, d.candidates, d.running())
			if got == nil && !differ {
				continue
			}
			for i := range got { // both up to what is the same for all
				got[i] -= got[len(got)-1]
			}
			for i := range want {
				want[i] -= want[len(want)-1]
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%+v on %v: -upstream +ours\n%s", d.pending, d.candidates, diff)
			}
		}
	})
}
