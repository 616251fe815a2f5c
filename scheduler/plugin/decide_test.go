package plugin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/policy/preference"
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
	fgd := fatal.Value(heuristic.Find("fgd"))(t)
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

// A network that sees no devices chooses a pod's devices without a pass, whatever its deadline.
func TestDevicesWithoutAPass(t *testing.T) {
	d := &networkDecider{net: load(t, untrained(t, 1, nil)), deadline: time.Nanosecond}
	v := testView(nil)
	v.rows, v.began = v.rows[:1], time.Now().Add(-time.Hour)
	if on, err := d.devices(v, false); on != cluster.Device(0) || err != nil || d.made != nil {
		t.Errorf("devices %b, %v; a policy was made: %v", on, err, d.made != nil)
	}
}

// The rule gpu-fill keeps the CPU beside idle GPUs for GPU pods, where the rule for balance chooses that node, and places a GPU pod there.
func TestFillKeepsCPUForGPUs(t *testing.T) {
	withCPU := func(p *v1.Pod, cpu string) *v1.Pod {
		p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse(cpu)
		return p
	}
	gpu := gpuNode("gpu", "G2", 8)
	gpu.Status.Capacity[v1.ResourceCPU], gpu.Status.Allocatable[v1.ResourceCPU] = resource.MustParse("48"), resource.MustParse("48")
	state := clusterState{nodes: []*v1.Node{gpu}}
	for i := range 3 {
		n := st.MakeNode().Name(fmt.Sprint("ordinary", i)).Capacity(map[v1.ResourceName]string{v1.ResourceCPU: "64", v1.ResourceMemory: "64Gi",
			v1.ResourcePods: "110"}).Obj()
		p := withCPU(gpuPod("on-"+n.Name, cluster.Resources{}), "24")
		p.Spec.NodeName = n.Name
		state.nodes, state.pods = append(state.nodes, n), append(state.pods, p)
	}
	for variant, args := range map[string]Args{"rule": {Policy: "rule"}, "gpu-fill": {Policy: "gpu-fill"}} {
		want := map[string]string{"rule": "gpu", "gpu-fill": "ordinary"}[variant]
		args.Preferences = preference.Off
		b := newBed(t, variant, args)
		unload := b.load(t, state)
		train, _, err := b.attempt(t, variant, withCPU(gpuPod("train", cluster.Resources{GPU: 1}), "2"))
		if err != nil || train.Spec.NodeName != "gpu" || train.Annotations[kube.GPUIndexAnnotation] == "" {
			t.Errorf("%s: the GPU pod %+v; %v", variant, train, err)
		}
		web, _, err := b.attempt(t, variant, withCPU(gpuPod("web", cluster.Resources{}), "40"))
		if err != nil || !strings.HasPrefix(web.Spec.NodeName, want) {
			t.Errorf("%s placed the pod without GPUs on %q, want %s; %v", variant, web.Spec.NodeName, want, err)
		}
		for _, p := range []*v1.Pod{train, web} {
			fatal.If(t, b.sched.Cache.ForgetPod(b.log, p))
		}
		unload()
	}
}

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
		fatal.Value(b.decide(profile, state.waiting))(t)
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
	c := fatal.Value(checkpoint.Load(file))(t)
	return fatal.Value(infer.New(c))(t)
}

// afresh scores nodes with a new mirror and a new policy.
func afresh(t rapid.TB, b *bed, pod *v1.Pod, nodes []fwk.NodeInfo) (scores map[string]int64, best string) {
	infos := fatal.Value(b.plugin.handle.SnapshotSharedLister().NodeInfos().List())(t)
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

// inOrder names nodes in the order of their indices.
func inOrder(i int) string { return string(rune(i)) }

// The order is kept, only the best has 100 (with random ties, all equal bests), and all scores are in
// 0 to 100.
func TestToNodeScores(t *testing.T) {
	raw := rapid.OneOf(
		rapid.SliceOfN(rapid.Float32Range(-math.MaxFloat32, math.MaxFloat32), 1, 300),
		rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 4), func(i int) float32 { return float32(i) }), 1, 50), // ties
		rapid.SliceOfN(rapid.Float32Range(1, 1.00001), 1, 50),                                             // almost equal
		rapid.SliceOfN(rapid.Float32Range(-1e-44, 1e-44), 1, 50),                                          // subnormal
	)
	rapid.Check(t, func(t *rapid.T) {
		raw := raw.Draw(t, "raw")
		out := make([]int8, len(raw))
		randomTies := rapid.Bool().Draw(t, "random ties")
		toNodeScores(raw, out, inOrder, randomTies)
		best := slices.Index(raw, slices.Max(raw))
		for i := range raw {
			if (out[i] == 100) != (i == best || randomTies && raw[i] == raw[best]) || out[i] < 0 {
				t.Fatalf("score %d of %v at %d, the best is at %d", out[i], raw[i], i, best)
			}
			for j := range raw {
				if raw[i] > raw[j] && out[i] < out[j] {
					t.Fatalf("%v > %v, but %d < %d", raw[i], raw[j], out[i], out[j])
				}
			}
		}
	})
}

// Scores that differ by a hundredth of the range keep a difference.
func TestToNodeScoresUsesTheRange(t *testing.T) {
	raw := make([]float32, 101)
	for i := range raw {
		raw[i] = 7 + float32(i)
	}
	out := make([]int8, len(raw))
	toNodeScores(raw, out, inOrder, false)
	if out[0] != 0 || out[100] != 100 || out[99] < 97 || out[50] < 48 || out[50] > 50 {
		t.Errorf("%v", out)
	}
}

func TestToNodeScoresOfNothing(t *testing.T) {
	toNodeScores(nil, nil, nil, false)
	if spread(nil) != 0 || spread([]float32{-1, 2, 0}) != 3 {
		t.Error("spread")
	}
}

// summedScores returns the default profile's score of each feasible node from the plugins that are summed.
func summedScores(t rapid.TB, b *bed, pod *v1.Pod) map[string]int64 {
	out := map[string]int64{}
	for _, n := range b.totals(t, defaultProfile, pod) {
		for _, s := range n.Scores {
			switch s.Name {
			case names.PodTopologySpread:
				if len(pod.Spec.TopologySpreadConstraints) == 0 {
					continue // it is the default's
				}
				fallthrough
			case names.NodeAffinity, names.InterPodAffinity, names.TaintToleration:
				out[n.Name] += s.Score
			}
		}
	}
	return out
}

// On one cluster after another, the chosen node has the highest sum of the default profile's scores of
// declared preferences, and nodes with a lower sum have lower node scores.
func TestChosenNodeIsPreferred(t *testing.T) {
	for _, args := range []Args{{Checkpoint: untrained(t, 5, nil)}, {Policy: "random"}} {
		const profile = "prefers"
		b := newBed(t, profile, args, service())
		narrowed := 0
		rapid.Check(t, func(t *rapid.T) {
			state := drawState(t)
			defer b.load(t, state)()
			result, err := b.decide(profile, state.waiting)
			if err != nil || result.FeasibleNodes < 2 {
				t.Skip("no choice")
			}
			want := summedScores(t, b, state.waiting)
			best := int64(math.MinInt64)
			for _, v := range want {
				best = max(best, v)
			}
			if want[result.SuggestedHost] != best {
				t.Fatalf("%s was chosen with %d of %v", result.SuggestedHost, want[result.SuggestedHost], want)
			}
			got := b.totals(t, profile, state.waiting)
			for _, x := range got {
				if want[x.Name] < best {
					narrowed++
				}
				for _, y := range got {
					if want[x.Name] < want[y.Name] && (x.TotalScore > y.TotalScore || want[y.Name] == best && x.TotalScore >= y.TotalScore &&
						x.TotalScore >= int64(lowest)) {
						t.Fatalf("%s has %d, %s has %d, preferences %v", x.Name, x.TotalScore, y.Name, y.TotalScore, want)
					}
				}
			}
		})
		if narrowed == 0 {
			t.Error("preferences never mattered")
		}
	}
}

// Node scores of nodes that the preferences leave are above all others, and no order is reversed.
func TestRankedScores(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &scoring{priority: rapid.SliceOfN(rapid.Int64Range(-5000, 100_000), 2, 200).Draw(t, "rank")}
		for i, v := range s.priority {
			if v == slices.Max(s.priority) {
				s.left = append(s.left, int32(i))
				s.nodes = append(s.nodes, nodeNamed(string(rune('a'+i))))
				s.raw = append(s.raw, rapid.Float32Range(-3, 3).Draw(t, "raw"))
			}
		}
		s.decider, s.total = noDecider{}, s.raw
		out := make([]int8, len(s.priority))
		s.rankedScores(out)
		best := 0
		for j, i := range s.left {
			if out[i] < lowest {
				t.Fatalf("a node that is left has %d", out[i])
			}
			if out[i] == 100 {
				best++
			}
			for k, l := range s.left {
				if s.raw[j] > s.raw[k] && out[i] < out[l] {
					t.Fatalf("%v > %v, but %d < %d", s.raw[j], s.raw[k], out[i], out[l])
				}
			}
		}
		if best != 1 {
			t.Fatalf("%d nodes have 100", best)
		}
		for i := range s.priority {
			if !slices.Contains(s.left, int32(i)) && (out[i] < 0 || out[i] >= lowest) {
				t.Fatalf("a node that is not left has %d", out[i])
			}
			for j := range s.priority {
				if s.priority[i] > s.priority[j] && out[i] < out[j] {
					t.Fatalf("priority %d > %d, but %d < %d", s.priority[i], s.priority[j], out[i], out[j])
				}
			}
		}
	})
}

func nodeNamed(name string) fwk.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(st.MakeNode().Name(name).Obj())
	return info
}

// softened loads n nodes; pods should avoid all but those with an odd number.
func (b *bed) softened(t testing.TB, n int) {
	var state clusterState
	for i := range n {
		node := st.MakeNode().Name(string(rune('a' + i))).Capacity(map[v1.ResourceName]string{v1.ResourceCPU: "64", v1.ResourceMemory: "64Gi",
			v1.ResourcePods: "110"})
		if i%2 == 0 {
			node.Taints([]v1.Taint{{Key: "soft", Effect: v1.TaintEffectPreferNoSchedule}})
		}
		state.nodes = append(state.nodes, node.Obj())
	}
	b.load(t, state)
}

// A decision says how many nodes the preferences left. After a fallback, upstream's scoring has
// chosen among all.
func TestDecisionCountsPreferredNodes(t *testing.T) {
	for file, want := range map[string]int{untrained(t, 1, nil): 3, "none.safetensors": 7} {
		const profile = "counts-preferred"
		b, heard := listeningBed(t, profile, Args{Checkpoint: file, Deadline: duration(100 * time.Second)})
		b.softened(t, 7)
		pod := benchPod(0, 0, "")
		state, node, ok := b.cycle(t, profile, pod)
		if !ok {
			t.Fatal("no choice")
		}
		b.sched.Profiles[profile].RunPostBindPlugins(b.ctx, state, pod, node)
		if d := <-heard; d.Feasible != 7 || d.Preferred != want || len(d.Best) != min(want, 5) || (node[0]-'a')%2 != 1 {
			t.Errorf("%s: %+v", file, d)
		}
	}
}

// Exploration draws only among the nodes that the preferences leave.
func TestExplorationKeepsPreferences(t *testing.T) {
	const profile = "explores"
	b, finish := newLearningBed(t, profile, learning(t, 1))
	b.softened(t, 7)
	drawn := map[string]int{}
	for i := range 300 {
		pod := benchPod(i, 0, "")
		state, node, ok := b.cycle(t, profile, pod)
		if !ok {
			t.Fatal("no choice")
		}
		drawn[node]++
		b.sched.Profiles[profile].RunReservePluginsUnreserve(b.ctx, state, pod, node)
	}
	finish()
	if len(drawn) != 3 || drawn["b"] == 0 || drawn["d"] == 0 || drawn["f"] == 0 {
		t.Errorf("drawn %v, want b, d and f", drawn)
	}
}

// broken is a score plugin that always fails.
type broken struct{ fwk.ScorePlugin }

func (broken) Name() string { return names.NodeAffinity }

func (broken) Score(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 0, fwk.AsStatus(errors.New("broken"))
}

// A preference plugin that fails is counted and left out. The other preferences still count, and the
// network decides.
func TestBrokenPreferenceIsLeftOut(t *testing.T) {
	const profile = "broken-preference"
	b := newBed(t, profile, Args{Policy: "best-fit"})
	b.softened(t, 7)
	b.plugin.preferences.summed = append([]weighted{{broken{}, 2}}, b.plugin.preferences.summed...)
	for i := range 3 {
		r, err := b.decide(profile, benchPod(i, 0, ""))
		if err != nil || (r.SuggestedHost[0]-'a')%2 != 1 {
			t.Errorf("pod %d on %s, %v", i, r.SuggestedHost, err)
		}
	}
	n, err := testutil.GetCounterMetricValue(preferencesFailed.WithLabelValues(profile, names.NodeAffinity))
	if err != nil || n != 3 {
		t.Errorf("%v failures are counted, %v", n, err)
	}
	if n, err := Fallbacks(profile); n != 0 || err != nil {
		t.Errorf("%d fallbacks, %v", n, err)
	}
}

// The devices of a pod are chosen on the node that the preferences leave.
func TestDevicesOnPreferredNode(t *testing.T) {
	for _, policy := range []string{"fgd", "gpu-best-fit"} {
		profile := "devices-" + policy
		b, heard := listeningBed(t, profile, Args{Policy: policy})
		full, avoided := gpuNode("a", "T4", 4), gpuNode("b", "T4", 1)
		avoided.Spec.Taints = []v1.Taint{{Key: "soft", Effect: v1.TaintEffectPreferNoSchedule}}
		b.load(t, clusterState{nodes: []*v1.Node{full, avoided}})
		pod, state, err := b.attempt(t, profile, gpuPod("p", cluster.Resources{GPUMilli: 300}))
		fatal.If(t, err)
		b.sched.Profiles[profile].RunPostBindPlugins(b.ctx, state, pod, pod.Spec.NodeName)
		if d := <-heard; d.Node != "a" || d.Preferred != 1 || d.Feasible != 2 || d.Devices == 0 || kube.Devices(pod.Annotations) != d.Devices {
			t.Errorf("%s: %+v", policy, d)
		}
	}
}

// At the start, one line for each profile says how preferences count.
func TestStartSaysHowPreferencesCount(t *testing.T) {
	for given, want := range map[preference.Mode]string{"": "first", preference.Declared: "declared", preference.Blend: "blend",
		preference.Off: "off"} {
		profile := "says-" + want
		b := newBed(t, profile, Args{Policy: "best-fit"})
		var lines []string
		log := funcr.New(func(prefix, args string) { lines = append(lines, prefix+" "+args) }, funcr.Options{})
		raw := fmt.Sprintf(`{"policy": "best-fit", "preferences": %q}`, given)
		args := fatal.Value(DecodeArgs(&runtime.Unknown{Raw: []byte(raw)}, profile))(t)
		fatal.Value(newLearnedScore(klog.NewContext(b.ctx, log), args, b.sched.Profiles[profile], b.reservations()))(t)
		said := slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, "Preferences of manifests") })
		if len(said) != 1 || !strings.Contains(said[0], `"profile"="`+profile+`"`) || !strings.Contains(said[0], `"preferences"="`+want+`"`) {
			t.Errorf("preferences %q: %q", given, said)
		}
	}
}

// Twelve replicas prefer the nodes with an SSD, which have room for eight of them, and should avoid the two
// others that are small. The default profile places eight and none there, and so does every profile of
// ours. Without preferences none does.
func TestTwelveReplicasPreferSSD(t *testing.T) {
	s := readSuite(t)
	k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == "node-affinity-deployment" })]
	s.cluster = mixedNodes(t)
	for _, n := range s.cluster.nodes[1:3] {
		n.Labels["disk"] = "ssd"
	}
	for _, n := range s.cluster.nodes[3:5] {
		n.Labels["pool"], n.Spec.Taints = "spot", []v1.Taint{{Key: "spot", Effect: v1.TaintEffectPreferNoSchedule}}
	}
	for _, p := range s.pods[k.name] {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("2500m"),
			v1.ResourceMemory: resource.MustParse("2Gi")}
	}
	want := []int{8, 0} // on nodes with an SSD, and minus those on avoided nodes
	for _, args := range suiteProfiles {
		for _, mode := range []preference.Mode{preference.First, preference.Declared, preference.Off} {
			args.Preferences = mode
			profile := args.Variant + args.Policy + "-ssd-" + string(mode)
			b := newBed(t, profile, args, s.objects...)
			b.load(t, s.cluster)
			if got := s.play(t, b, defaultProfile, k); !slices.Equal(got, want) {
				t.Fatalf("the default profile: %v, want %v", got, want)
			}
			if got := s.play(t, b, profile, k); slices.Equal(got, want) != (mode != preference.Off) {
				t.Errorf("%s: %v, the default profile %v", profile, got, want)
			}
		}
	}
}

// blended are upstream's weights of its plugins that score by preferences, as in server.Profile.
var blended = []config.Plugin{{Name: "TaintToleration", Weight: 3}, {Name: "NodeAffinity", Weight: 2},
	{Name: "PodTopologySpread", Weight: 2}, {Name: "InterPodAffinity", Weight: 2}, {Name: "ImageLocality", Weight: 1}}
