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

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy/preference"
)

// wishes returns the default profile's score of each feasible node from the plugins that are summed.
func wishes(t rapid.TB, b *bed, pod *v1.Pod) map[string]int64 {
	out := map[string]int64{}
	for _, n := range b.totals(t, defaultProfile, pod) {
		for _, s := range n.Scores {
			switch s.Name {
			case names.NodeAffinity, names.InterPodAffinity, names.TaintToleration, names.PodTopologySpread:
				out[n.Name] += s.Score
			}
		}
	}
	return out
}

// On one cluster after another, the chosen node has the highest sum of the default profile's
// preferences, and nodes with a lower sum have lower node scores.
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
			want := wishes(t, b, state.waiting)
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
		s.decider = noDecider{}
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

// Exploration draws only among the nodes that the preferences leave, and an actor-critic's step has
// the probability within these.
func TestExplorationKeepsPreferences(t *testing.T) {
	for profile, args := range map[string]Args{"explores-q": learning(t, 1), "explores-ac": drawing(t)} {
		b, finish := newLearningBed(t, profile, args)
		b.softened(t, 7)
		drawn := map[string]int{}
		for i := range 300 {
			pod := benchPod(i, 0, "")
			state, node, ok := b.cycle(t, profile, pod)
			if !ok {
				t.Fatal("no choice")
			}
			d := noteKey.Read(state)
			if len(d.rows) != 3 {
				t.Fatalf("%s: the step has %d candidates, want 3", profile, len(d.rows))
			}
			if profile == "explores-ac" {
				out, err := b.plugin.active.load().(*networkDecider).net.NewSession().Score(d.step.State, nil)
				fatal.If(t, err)
				if want := softmax(out.Scores)[d.step.Action]; math.Abs(math.Exp(d.step.Log)-want) > 1e-5 {
					t.Fatalf("probability %v, want %v", math.Exp(d.step.Log), want)
				}
			}
			drawn[node]++
			b.sched.Profiles[profile].RunReservePluginsUnreserve(b.ctx, state, pod, node)
		}
		finish()
		if len(drawn) != 3 || drawn["b"] == 0 || drawn["d"] == 0 || drawn["f"] == 0 {
			t.Errorf("%s: drawn %v, want b, d and f", profile, drawn)
		}
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
		args, err := DecodeArgs(&runtime.Unknown{Raw: []byte(raw)}, profile)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newLearnedScore(klog.NewContext(b.ctx, log), args, b.sched.Profiles[profile], b.reservations()); err != nil {
			t.Fatal(err)
		}
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
