package plugin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"pgregory.net/rapid"

	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/plugin/dra"
)

// sharing returns the arguments of a profile with a share, by namespace.
func sharing(args Args, of float64) Args {
	args.Canary = &canary.Args{Of: of, By: canary.ByNamespace}
	return args
}

// begun waits until the share has begun.
func (b *bed) begun(t *testing.T) (learned, rest string) {
	t.Helper()
	for range 1000 {
		for i := range 100 {
			ns := fmt.Sprint("ns-", i)
			if b.plugin.groupOf(inNamespace(ns)) == canary.Learned {
				learned = ns
			} else {
				rest = ns
			}
		}
		if learned != "" && rest != "" {
			return learned, rest
		}
		time.Sleep(time.Millisecond) // its goroutine reads the lease
	}
	t.Fatal("the share does not begin")
	return "", ""
}

func inNamespace(ns string) *v1.Pod {
	p := &v1.Pod{}
	p.Namespace = ns
	return p
}

// For the rest, the nodes with the highest score are those of the default profile, all of them. For the canary, the
// scores are those of the profile's network.
func TestShareOfThePods(t *testing.T) {
	const profile = "sharing"
	b := newBed(t, profile, sharing(Args{Checkpoint: untrained(t, 1, nil)}, 0.5), service())
	learned, rest := b.begun(t)
	differed := false
	rapid.Check(t, func(t *rapid.T) {
		state := drawState(t)
		defer b.load(t, state)()
		state.waiting.Namespace = rest
		if _, err := b.decide(profile, state.waiting); err != nil {
			t.Skip("fits nowhere")
		}
		want, got := b.totals(t, defaultProfile, state.waiting), b.totals(t, profile, state.waiting)
		best, ours := bestOf(want), bestOf(got)
		if d := cmp.Diff(best, ours); d != "" {
			t.Fatalf("the rest gets other nodes than by the default profile: %s", d)
		}
		state.waiting.Namespace = learned
		nodes, _ := b.filter(t, profile, state.waiting)
		opinion := fatal.Value(Ask(b.ctx, b.sched.Profiles[profile], state.waiting, nodes, false))(t)
		got = b.totals(t, profile, state.waiting)
		for i, n := range opinion.Nodes {
			if got[i].TotalScore != int64(n.Score) {
				t.Fatalf("%s has %d for the canary, %d by the network", got[i].Name, got[i].TotalScore, n.Score)
			}
		}
		differed = differed || !slices.Equal(best, bestOf(got))
	})
	if !differed {
		t.Error("the network never chose another node than the default profile")
	}
}

// bestOf returns the names of the nodes with the highest total.
func bestOf(scores []fwk.NodePluginScores) (names []string) {
	most := int64(math.MinInt64)
	for _, s := range scores {
		most = max(most, s.TotalScore)
	}
	for _, s := range scores {
		if s.TotalScore == most {
			names = append(names, s.Name)
		}
	}
	return names
}

// noting notes whose devices a decider chooses.
type noting struct {
	decider
	namespaces map[string]int
}

func (a noting) devices(v view, scored bool) (cluster.DeviceSet, error) {
	a.namespaces[v.pod.Namespace]++
	return a.decider.devices(v, scored)
}

// The policy chooses GPU devices for the canary only. Both groups are in the same books: neither gets devices that the
// other holds.
func TestShareOfDevices(t *testing.T) {
	const profile = "sharing-gpus"
	b := newBed(t, profile, sharing(Args{Policy: "fgd"}, 0.5))
	learned, rest := b.begun(t)
	chose := noting{b.plugin.active.load(), map[string]int{}}
	b.plugin.active.store(chose)
	b.sched.Cache.AddNode(b.log, gpuNode("a", "T4", 1))
	b.sched.Cache.AddNode(b.log, gpuNode("b", "T4", 1))
	used := map[string]int{}
	for i, ns := range []string{learned, rest, learned, rest, rest} {
		pod := gpuPod(fmt.Sprint("p", i), share(500))
		pod.Namespace = ns
		bound, _, err := b.attempt(t, profile, pod)
		if (err == nil) != (i < 4) {
			t.Fatalf("pod %d on two devices for two halves each: %v", i, err)
		}
		if err == nil {
			used[bound.Spec.NodeName+bound.Annotations[kube.GPUIndexAnnotation]]++
		}
	}
	if d := cmp.Diff(map[string]int{"a0": 2, "b0": 2}, used); d != "" {
		t.Errorf("halves on each device: %s", d)
	}
	if d := cmp.Diff(map[string]int{learned: 2}, chose.namespaces); d != "" {
		t.Errorf("devices that the policy chose, by namespace: %s", d)
	}
}

// A scheduler that ends cancels its bindings. That is no failure of the canary; a binding that fails is.
func TestEndOfTheSchedulerStopsNothing(t *testing.T) {
	const profile = "sharing-ends"
	b := newBed(t, profile, sharing(Args{Policy: "gpu-best-fit"}, 0.5))
	learned, rest := b.begun(t)
	b.load(t, clusterState{nodes: []*v1.Node{gpuNode("a", "T4", 4), gpuNode("b", "T4", 2)}})
	ended, end := context.WithCancel(b.ctx)
	end()
	made := 0
	fail := func(ctx context.Context, times int) {
		for range times {
			made++
			for _, namespace := range []string{rest, learned} {
				name := fmt.Sprint(namespace, made)
				pod := gpuPod(name, cluster.Resources{Pods: 1})
				pod.Namespace, pod.UID = namespace, types.UID(name)
				bound, cycle, err := b.attempt(t, profile, pod)
				fatal.If(t, err)
				if namespace == rest {
					b.sched.Profiles[profile].RunPostBindPlugins(b.ctx, cycle, bound, bound.Spec.NodeName)
				} else {
					b.sched.Profiles[profile].RunReservePluginsUnreserve(ctx, cycle, pod, "a")
				}
			}
		}
	}
	const many = 20
	if fail(ended, many); b.plugin.groupOf(inNamespace(learned)) != canary.Learned {
		t.Error("the end of the scheduler stops the share")
	}
	if fail(b.ctx, many); b.plugin.groupOf(inNamespace(learned)) != canary.Rest {
		t.Error("bindings that fail do not stop the share")
	}
}

// The time of each attempt reaches the canary of its profile, and slow ones stop it.
func TestSlowAttemptsStop(t *testing.T) {
	const profile = "sharing-slowly"
	b := newBed(t, profile, sharing(Args{Policy: "gpu-best-fit"}, 0.5))
	learned, _ := b.begun(t)
	for range 1000 {
		Attempted(b.sched.Profiles[profile], inNamespace(learned), time.Minute)
	}
	if b.plugin.groupOf(inNamespace(learned)) != canary.Rest {
		t.Error("attempts of a minute do not stop the share")
	}
}

func fallbackCount(t rapid.TB, profile, reason string) float64 {
	t.Helper()
	return fatal.Value(testutil.GetCounterMetricValue(fallbacks.WithLabelValues(profile, reason)))(t)
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
	fatal.Value(b.decide(defaultProfile, state.waiting))(t)
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

// unanswered is an API server that writes the allocation of a claim and is killed before it answers.
type unanswered struct {
	mu      sync.Mutex
	away    bool
	written *resourceapi.ResourceClaim
}

func (u *unanswered) update(a clienttesting.Action) (bool, runtime.Object, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if a.GetSubresource() != "status" {
		return false, nil, nil
	}
	u.away, u.written = true, a.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim)
	return true, nil, errors.New("connection reset by peer")
}

func (u *unanswered) get(clienttesting.Action) (bool, runtime.Object, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.away {
		return true, nil, errors.New("connection refused")
	}
	return u.written != nil, u.written.DeepCopy(), nil
}

// An allocation whose write was not answered takes its device until the cache of claims shows what was written. The pod waits so long,
// and the device is never free in between.
func TestUnansweredAllocation(t *testing.T) {
	client, server := fake.NewClientset(claimObjects()...), &unanswered{}
	client.PrependReactor("update", "resourceclaims", server.update)
	client.PrependReactor("get", "resourceclaims", server.get)
	const profile = "devices"
	bed := claimBed(t, client, []string{defaultProfile, profile, "gpu-gnn"})
	pod := pendingPod(t, bed)
	pod.Spec.SchedulerName = profile
	fatal.Value(bed.decide(profile, pod))(t)
	f, node := bed.sched.Profiles[profile], "n0"
	feasible, state := bed.filter(t, profile, pod)
	if len(feasible) != claimNodes {
		t.Fatalf("%d nodes are feasible", len(feasible))
	}
	ledger := dra.LedgerOf(t.Context(), f)
	used := func() int64 {
		view := fatal.Value(ledger.View(t.Context()))(t)
		n := cluster.Node{Name: node}
		view.Placer(&n).Rest(&n)
		return n.GPUs[0]
	}
	if s := f.RunReservePluginsReserve(t.Context(), state, pod, node); !s.IsSuccess() || used() != 460 {
		t.Fatalf("%v, %d thousandths are used", s, used())
	}
	done := make(chan *fwk.Status, 1)
	go func() { done <- f.RunPreBindPlugins(t.Context(), state, pod, node) }()
	until(t, func() bool { server.mu.Lock(); defer server.mu.Unlock(); return server.away })
	waiting := func() float64 {
		families := fatal.Value(legacyregistry.DefaultGatherer.Gather())(t)
		for _, f := range families {
			for _, m := range f.Metric {
				if f.GetName() == "gnnsched_claims_unconfirmed" && m.Label[0].GetValue() == profile {
					return m.GetGauge().GetValue()
				}
			}
		}
		return -1
	}
	stays := func(when string) {
		t.Helper()
		if n := waiting(); n != 1 {
			t.Errorf("%s, %v claims are unconfirmed by the metric", when, n)
		}
		for range 50 {
			select {
			case s := <-done:
				t.Fatalf("%s, the pod is given up: %v", when, s)
			case <-time.After(10 * time.Millisecond):
			}
			if used() != 460 {
				t.Fatalf("%s, %d thousandths are used", when, used())
			}
		}
	}
	until(t, func() bool { return waiting() == 1 })
	stays("while the API server is away")
	server.mu.Lock()
	server.away = false
	server.mu.Unlock()
	stays("before the cache shows the claim")
	newer := server.written.DeepCopy()
	newer.ResourceVersion = "2" // the cache takes newer versions only
	fatal.If(t, client.Tracker().Update(resourceapi.SchemeGroupVersion.WithResource("resourceclaims"), newer, "default"))
	select {
	case s := <-done:
		if s.IsSuccess() || used() != 460 || waiting() != 0 {
			t.Errorf("%v, %d thousandths are used, %v claims are unconfirmed", s, used(), waiting())
		}
	case <-time.After(time.Minute):
		t.Fatal("the pod waits although the cache shows the claim")
	}
	f.RunReservePluginsUnreserve(t.Context(), state, pod, node)
	if used() != 460 {
		t.Errorf("afterwards %d thousandths are used", used())
	}
}

func until(t *testing.T, is func() bool) {
	t.Helper()
	for range 6000 { // a minute
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("waited in vain")
}

// taint is the usual taint of nodes with GPUs.
var taint = v1.Taint{Key: "nvidia.com/gpu", Value: "present", Effect: v1.TaintEffectNoSchedule}

// tolerate lets a pod run on nodes with the taint.
func tolerate(p *v1.Pod) {
	p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: taint.Key, Operator: v1.TolerationOpExists})
}

// taintedPods returns pods of several shapes. Every fifth requests no GPU and waits for the node of its own.
func taintedPods() (pods []*v1.Pod) {
	shapes := []cluster.Resources{{MilliCPU: 6000, GPUMilli: 460}, {MilliCPU: 8000, GPU: 1}, {MilliCPU: 4000, GPUMilli: 300},
		{MilliCPU: 16_000, GPU: 2}, {MilliCPU: 1000}}
	for i := range 30 {
		p := gpuPod(fmt.Sprint("p", i), shapes[i%len(shapes)])
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(shapes[i%len(shapes)].MilliCPU,
			resource.DecimalSI)}
		for name, q := range p.Spec.Containers[0].Resources.Limits {
			p.Spec.Containers[0].Resources.Requests[name] = q
		}
		if shapes[i%len(shapes)].TotalGPUMilli() == 0 {
			p.Spec.NodeSelector = map[string]string{"pool": "cpu"}
		}
		pods = append(pods, p)
	}
	return pods
}

// With every node with GPUs tainted and every pod with GPUs tolerating it, nodes and devices are those
// without taints: with the network's own typical pods and with those of a file, where no pod tolerates
// anything.
func TestTaintedNodesThatAllTolerate(t *testing.T) {
	list, err := filepath.Abs("../../workload/trace/openb/testdata/pods.csv")
	fatal.If(t, err)
	for name, args := range map[string]Args{"family": {Variant: "gpu-gnn"}, "file": {Variant: "gpu-gnn", Workload: list},
		"fgd": {Policy: "fgd"}} {
		t.Run(name, func(t *testing.T) {
			var want []string
			for _, tainted := range []bool{false, true} {
				profile := fmt.Sprint(name, "-", tainted)
				b := newBed(t, profile, args)
				cpu := gpuNode("cpu", "", 0)
				cpu.Labels["pool"] = "cpu"
				state := clusterState{nodes: []*v1.Node{cpu}}
				for i, devices := range []int64{8, 4, 2, 8, 1, 2} {
					n := gpuNode(fmt.Sprint("n", i), []string{"T4", "P100", "G2"}[i%3], devices)
					if tainted {
						n.Spec.Taints = []v1.Taint{taint}
					}
					state.nodes = append(state.nodes, n)
				}
				b.load(t, state)
				var got []string
				for _, p := range taintedPods() {
					if tainted && p.Spec.NodeSelector == nil {
						tolerate(p)
					}
					bound, _, err := b.attempt(t, profile, p)
					if err != nil {
						got = append(got, "none")
						continue
					}
					got = append(got, bound.Spec.NodeName+" "+bound.Annotations[kube.GPUIndexAnnotation])
				}
				if n, err := Fallbacks(profile); n != 0 || err != nil {
					t.Errorf("%d decisions fell back, %v", n, err)
				}
				if want == nil {
					want = got
				}
				if slices.Index(got, "none") == 0 || len(slices.Compact(slices.Sorted(slices.Values(got)))) < 10 {
					t.Errorf("too few places: %v", got)
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Error(d)
				}
			}
		})
	}
}

// The typical pods have the tolerations of the pods that arrive, as soon as these differ.
func TestDemandTolerates(t *testing.T) {
	d := fatal.Value(newDemandTracker("ours", "../../workload/trace/openb/testdata/pods.csv"))(t)
	tainted := &cluster.Node{Taints: []cluster.Taint{{Key: "a", Effect: cluster.NoSchedule}}, GPUs: []int64{0},
		Allocatable: cluster.Resources{MilliCPU: 64_000, GPU: 1, Pods: 10}}
	tolerant := &cluster.Pod{Requests: share(500), Tolerations: []cluster.Toleration{{Key: "a", Exists: true}}}
	if d.typical(nil).Open(tainted) {
		t.Error("open before any pod tolerates the taint")
	}
	d.countPending(&cluster.Pod{Requests: share(500)})
	closed := d.typical(nil)
	if closed.Open(tainted) || closed.Fragmentation(tainted) != cluster.DeviceMilli {
		t.Error("open to pods that do not tolerate the taint")
	}
	d.countPending(tolerant)
	half := d.typical(nil)
	if !half.Open(tainted) {
		t.Fatal("not open to a pod that tolerates the taint")
	}
	for range 100 {
		d.countPending(tolerant)
	}
	if most := d.typical(nil); !(most.Fragmentation(tainted) < half.Fragmentation(tainted)) {
		t.Errorf("fragmentation %v with half of the pods tolerating, %v with most", half.Fragmentation(tainted), most.Fragmentation(tainted))
	}
	if d.typical(nil) != d.typical(nil) {
		t.Error("the typical pods are made again without a change")
	}
}

// The number of kinds of tolerations is bounded.
func TestTolerationsAreBounded(t *testing.T) {
	d := fatal.Value(newDemandTracker("ours", ""))(t)
	for i := range 2 * remembered {
		d.countPending(&cluster.Pod{Requests: share(500), Tolerations: []cluster.Toleration{{Key: fmt.Sprint(i), Exists: true}}})
		if n := len(d.withGPU.kinds); n > maxTolerations+1 {
			t.Fatalf("%d kinds are kept", n)
		}
	}
}
