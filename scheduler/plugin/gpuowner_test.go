package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin/dra"
)

// on is a running GPU pod.
func on(node, device, name string, r cluster.Resources, priority int32) *v1.Pod {
	p := gpuPod(name, r)
	p.Spec.NodeName = node
	p.Annotations[kube.GPUIndexAnnotation] = device
	p.Spec.Priority = ptr.To(priority)
	return p
}

// Whatever its owner writes into a running pod's annotations, its devices are not given to others.
func TestOwnersCannotHideWhatTheyHold(t *testing.T) {
	const profile = "owners"
	b := newBed(t, profile, Args{Policy: "fgd"})
	for name, edit := range map[string]map[string]string{
		"nothing":             {},
		"less":                {kube.GPUMilliAnnotation: "1"},
		"none":                {kube.GPUMilliAnnotation: "0", kube.GPUCountAnnotation: "0"},
		"a word":              {kube.GPUMilliAnnotation: "half"},
		"many":                {kube.GPUCountAnnotation: "64"},
		"another device":      {kube.GPUIndexAnnotation: "0"},
		"no such device":      {kube.GPUIndexAnnotation: "9"},
		"endless devices":     {kube.GPUIndexAnnotation: strings.Repeat("1-", 100_000) + "1"},
		"all models":          {kube.GPUModelAnnotation: strings.Repeat("T4|", 40_000)},
		"an odd model":        {kube.GPUModelAnnotation: "|"},
		"less, and elsewhere": {kube.GPUMilliAnnotation: "1", kube.GPUIndexAnnotation: "0"},
	} {
		state := clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2)}, pods: []*v1.Pod{
			on("n", "0", "a", share(600), 0), on("n", "1", "b", share(600), 0),
		}}
		for _, p := range state.pods {
			p.UID += types.UID(" " + name) // the pods of each case are others
		}
		for k, v := range edit {
			state.pods[1].Annotations[k] = v
		}
		unload := b.load(t, state)
		for _, p := range []string{profile, defaultProfile} {
			if _, _, err := b.attempt(t, p, gpuPod("new", share(500))); err == nil || !strings.Contains(err.Error(), "no GPU with room") {
				t.Errorf("%s: %s finds room beside 600 of each device: %v", name, p, err)
			}
		}
		unload()
	}
}

// The scheduler overwrites the devices that a pending pod names.
func TestReserveOverwritesDevices(t *testing.T) {
	const profile = "overwrites"
	b := newBed(t, profile, Args{Policy: "gpu-best-fit"})
	plain := gpuNode("plain", "", 2)
	delete(plain.Status.Allocatable, kube.GPUMilliResource)
	delete(plain.Status.Allocatable, kube.GPUCountResource)
	defer b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2), plain}})()
	fatal.If(t, b.sched.Cache.UpdateSnapshot(b.log, b.snapshot(profile)))
	for _, node := range []string{"n", "plain"} {
		pod := gpuPod("p", cluster.Resources{GPU: 1})
		pod.Annotations = map[string]string{kube.GPUIndexAnnotation: "1"}
		f, state := b.sched.Profiles[profile], framework.NewCycleState()
		f.RunPreFilterPlugins(b.ctx, state, pod)
		if s := f.RunReservePluginsReserve(b.ctx, state, pod, node); !s.IsSuccess() {
			t.Fatal(s.AsError())
		}
		if got := pod.Annotations[kube.GPUIndexAnnotation]; got != "0" {
			t.Errorf("on %s: it has %q", node, got)
		}
	}
}

// A pod that names too many models is refused at once, unless it requests no GPU.
func TestModelsOfPendingPods(t *testing.T) {
	const profile = "models"
	b := newBed(t, profile, Args{Policy: "fgd"})
	defer b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2)}})()
	many := strings.Repeat("G2|", 40_000)
	gpus, cpu := gpuPod("gpus", share(100)), gpuPod("cpu", cluster.Resources{})
	cpu.Annotations = map[string]string{kube.GPUModelAnnotation: many}
	gpus.Annotations[kube.GPUModelAnnotation] = many
	for _, p := range []string{profile, defaultProfile} {
		if _, _, err := b.attempt(t, p, gpus); err == nil || !strings.Contains(err.Error(), "names more than 32 models") {
			t.Errorf("%s: %v", p, err)
		}
		for _, said := range []string{many, "A10"} {
			cpu.Annotations[kube.GPUModelAnnotation] = said
			bound, _, err := b.attempt(t, p, cpu)
			if err != nil {
				t.Fatalf("%s refuses a pod without GPUs: %v", p, err)
			}
			fatal.If(t, b.sched.Cache.ForgetPod(b.log, bound))
		}
	}
}

// A failed binding gives the device back, and the next attempt takes a free one.
func TestRetryOnAnotherDevice(t *testing.T) {
	const profile = "retries"
	client := fake.NewClientset()
	b := newBedWith(t, client, profile, Args{Policy: "gpu-best-fit"})
	defer b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2)}})()
	f := b.sched.Profiles[profile]
	fail := errors.New("the API server is away")
	bound := ""
	client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		bound = a.(clienttesting.CreateAction).GetObject().(*v1.Binding).Annotations[kube.GPUIndexAnnotation]
		return true, nil, fail
	})
	first := gpuPod("first", share(600))
	pod, state, err := b.attempt(t, profile, first)
	fatal.If(t, err)
	if s := f.RunBindPlugins(b.ctx, state, pod, "n"); s.IsSuccess() || bound != "0" {
		t.Fatalf("bound to device %q: %v", bound, s)
	}
	f.RunReservePluginsUnreserve(b.ctx, state, pod, "n")
	fatal.If(t, b.sched.Cache.ForgetPod(b.log, pod))
	other, _, err := b.attempt(t, profile, gpuPod("other", share(600)))
	if err != nil || other.Annotations[kube.GPUIndexAnnotation] != "0" {
		t.Fatalf("the device that was given back is not taken: %v, %v", other, err)
	}
	fail = nil
	for _, again := range []*v1.Pod{first, pod} { // before, and after the failed attempt
		again = again.DeepCopy()
		again.Spec.NodeName = ""
		got, state, err := b.attempt(t, profile, again)
		fatal.If(t, err)
		if s := f.RunBindPlugins(b.ctx, state, got, "n"); !s.IsSuccess() || bound != "1" || got.Annotations[kube.GPUIndexAnnotation] != "1" {
			t.Errorf("bound to device %q, the copy has %v: %v", bound, got.Annotations, s)
		}
		fatal.If(t, b.sched.Cache.ForgetPod(b.log, got))
	}
	fatal.If(t, b.sched.Cache.ForgetPod(b.log, other))
}

// Preemption takes devices into account: it evicts only pods that hold the missing devices, and none
// if the model is not allowed.
func TestPreemption(t *testing.T) {
	const profile = "preempts"
	const low, high = 1, 9
	cpu := gpuPod("asks", cluster.Resources{})
	cpu.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("64")} // all CPU of a gpuNode
	busy := on("n", "0", "a", share(100), low)
	busy.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("64")
	for _, c := range []struct {
		name    string
		running []*v1.Pod
		asks    *v1.Pod
		victim  string // empty if no pod is evicted
		then    string // the devices that the pod gets
	}{
		{"the one in the way", []*v1.Pod{on("n", "0", "a", share(300), high), on("n", "0", "b", share(600), low),
			on("n", "1", "c", share(900), high)}, gpuPod("asks", share(500)), "b", "0"},
		{"one is enough", []*v1.Pod{on("n", "0", "a", share(600), high), on("n", "1", "b", share(600), low)}, gpuPod("asks", share(1000-1)),
			"b", "1"},
		{"a whole device", []*v1.Pod{on("n", "0", "a", share(1), high), on("n", "1", "b", share(1), low)},
			gpuPod("asks", cluster.Resources{GPU: 1}), "b", "1"},
		{"a whole pod for a share", []*v1.Pod{on("n", "0-1", "a", cluster.Resources{GPU: 2}, low)}, gpuPod("asks", share(5)), "a", "0"},
		{"for CPU", []*v1.Pod{busy}, cpu, "a", ""},
		{"nobody of less priority", []*v1.Pod{on("n", "0", "a", share(600), high), on("n", "1", "b", share(600), high)},
			gpuPod("asks", share(500)), "", ""},
		{"no such model", []*v1.Pod{on("n", "0", "a", share(600), low), on("n", "1", "b", share(600), low)}, gpuPod("asks", share(500), "G2"),
			"", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			evicted := make(chan string, 10)
			c.asks.Spec.Priority = ptr.To[int32](5)
			client := fake.NewClientset(c.asks) // preemption looks the pod up
			b := newBedWith(t, client, profile, Args{Policy: "fgd"})
			client.PrependReactor("*", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				if d, deletes := a.(clienttesting.DeleteAction); deletes {
					evicted <- d.GetName()
				}
				return true, nil, nil
			})
			for _, p := range c.running {
				p.Spec.SchedulerName = profile
			}
			state := clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2)}, pods: c.running}
			b.load(t, state)
			_, cycle, err := b.attempt(t, profile, c.asks)
			var fit *framework.FitError
			if !errors.As(err, &fit) {
				t.Fatalf("it is not refused: %v", err)
			}
			result, s := b.sched.Profiles[profile].RunPostFilterPlugins(b.ctx, cycle, c.asks, fit.Diagnosis.NodeToStatus)
			if c.victim == "" {
				if s.IsSuccess() {
					t.Errorf("somebody is evicted for %v", result)
				}
				return
			}
			if !s.IsSuccess() || result.NominatedNodeName != "n" {
				t.Fatalf("%v, %v", result, s)
			}
			if got := <-evicted; got != c.victim {
				t.Errorf("%s is evicted, want %s", got, c.victim)
			}
			for _, p := range c.running {
				if p.Name == c.victim {
					fatal.If(t, b.sched.Cache.RemovePod(b.log, p))
				}
			}
			bound, _, err := b.attempt(t, profile, c.asks)
			if err != nil || bound.Annotations[kube.GPUIndexAnnotation] != c.then {
				t.Errorf("then: %v, %v", bound, err)
			}
			if n := len(evicted); n != 0 {
				t.Errorf("%d more are evicted", n)
			}
		})
	}
}

// A refused pod is tried again once its owner corrects it or another pod gives GPUs back, and after no
// other change of a pod.
func TestWhatWakesRefusedPods(t *testing.T) {
	refused := gpuPod("refused", share(500))
	holder := on("n", "0", "holder", share(600), 0)
	idle := gpuPod("idle", cluster.Resources{})
	idle.Spec.NodeName = "n"
	waiting := gpuPod("waiting", share(500))
	nominated := waiting.DeepCopy()
	nominated.Status.NominatedNodeName = "n"
	with := func(p *v1.Pod, key, value string) *v1.Pod {
		p = p.DeepCopy()
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[key] = value
		return p
	}
	events := fatal.Value((&gpuShares{}).EventsToRegister(t.Context()))(t)
	e := events[0]
	for _, c := range []struct {
		name          string
		before, after any
		want          fwk.QueueingHint
	}{
		{"mended", refused, with(refused, kube.GPUMilliAnnotation, "100"), fwk.Queue},
		{"other models", refused, with(refused, kube.GPUModelAnnotation, "T4"), fwk.Queue},
		{"something else of its own", refused, with(refused, "note", "x"), fwk.QueueSkip},
		{"a holder leaves", holder, nil, fwk.Queue},
		{"a holder has left unseen", cache.DeletedFinalStateUnknown{Obj: holder}, nil, fwk.Queue},
		{"a holder says that it takes less", holder, with(holder, kube.GPUMilliAnnotation, "100"), fwk.QueueSkip},
		{"a holder names another device", holder, with(holder, kube.GPUIndexAnnotation, "1"), fwk.QueueSkip},
		{"another device of its own", refused, with(refused, kube.GPUIndexAnnotation, "1"), fwk.QueueSkip},
		{"a holder says nothing new", holder, with(holder, "note", "x"), fwk.QueueSkip},
		{"a pod without GPUs leaves", idle, nil, fwk.QueueSkip},
		{"a pod that waits leaves", waiting, nil, fwk.QueueSkip},
		{"a pod that had a node promised leaves", nominated, nil, fwk.Queue},
		{"a pod that waits asks for less", waiting, with(waiting, kube.GPUMilliAnnotation, "100"), fwk.QueueSkip},
		{"a pod comes", nil, holder, fwk.QueueSkip},
	} {
		got, err := e.QueueingHintFn(klog.Background(), refused, c.before, c.after)
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
	if got, err := e.QueueingHintFn(klog.Background(), refused, fmt.Errorf("no pod"), nil); err == nil || got != fwk.Queue {
		t.Errorf("no pod: %v, %v", got, err)
	}
	for _, event := range []fwk.ClusterEvent{framework.EventUnscheduledPodUpdate, framework.EventAssignedPodUpdate,
		framework.EventAssignedPodDelete} {
		if !framework.MatchClusterEvents(e.Event, event) {
			t.Errorf("%v does not come there", event)
		}
	}
}

// versions gives each claim that is written a newer version, as an API server does.
func versions(client *fake.Clientset) {
	var last atomic.Int64
	last.Store(1)
	client.PrependReactor("update", "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
		a.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim).ResourceVersion = strconv.FormatInt(last.Add(1), 10)
		return false, nil, nil
	})
}

// Another scheduler writes an allocation of the same shares after this one has decided and before it writes its own. The pod that was
// second gives its devices back before it is bound. In the next attempt it gets others.
func TestAnotherSchedulerWasFirst(t *testing.T) {
	client := fake.NewClientset(append(claimObjects(), claimOf("foreign", "", ""))...)
	versions(client)
	const profile = "devices"
	bed := claimBed(t, client, []string{defaultProfile, profile, "gpu-gnn"})
	pod := pendingPod(t, bed)
	pod.Spec.SchedulerName = profile
	f, node, claims := bed.sched.Profiles[profile], "n0", client.ResourceV1().ResourceClaims("default")
	pending := func() *resourceapi.ResourceClaim {
		t.Helper()
		return fatal.Value(claims.Get(t.Context(), "pending", metav1.GetOptions{}))(t)
	}
	attempt := func(between func(on string)) string {
		t.Helper()
		fatal.Value(bed.decide(profile, pod.DeepCopy()))(t)
		_, state := bed.filter(t, profile, pod)
		if s := f.RunReservePluginsReserve(t.Context(), state, pod, node); !s.IsSuccess() {
			t.Fatal(s)
		}
		on := dra.ReservedDevices(state)[0].Name
		between(on)
		s := f.RunPreBindPlugins(t.Context(), state, pod, node)
		if s.IsSuccess() {
			return on
		}
		f.RunReservePluginsUnreserve(t.Context(), state, pod, node)
		return s.Message()
	}
	var lost string
	why := attempt(func(on string) {
		lost = on
		foreign, rest := claimOf("foreign", node, on), claimOf("rest", node, on) // with 460 of 1000 shares each
		if _, err := claims.Update(t.Context(), foreign, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
		rest.ResourceVersion = "1"
		if _, err := claims.Create(t.Context(), rest, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	if want := "another scheduler gave device " + claimDriver + "/" + node + "/" + lost + " away"; !strings.Contains(why, want) {
		t.Fatalf("%q, want %q", why, want)
	}
	if c := pending(); c.Status.Allocation != nil || len(c.Status.ReservedFor) > 0 {
		t.Errorf("the claim keeps %+v", c.Status)
	}
	until(t, func() bool {
		known, err := f.SharedDRAManager().ResourceClaims().Get("default", "pending")
		return err == nil && known.Status.Allocation == nil
	})
	on := attempt(func(string) {})
	if c := pending(); on == lost || c.Status.Allocation == nil || c.Status.Allocation.Devices.Results[0].Device != on ||
		len(c.Status.ReservedFor) != 1 {
		t.Errorf("then it has %q: %+v", on, c.Status)
	}
}

// In whatever order bindings end, every decision is sent once, in the order of the numbers, and says
// whether its pod was bound. Over the limit the oldest is sent as unbound.
func TestLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sent []decision.Decision
		l := &ledger{limit: rapid.IntRange(1, 5).Draw(t, "limit"), send: func(d decision.Decision) { sent = append(sent, d) }}
		var open []*entry
		bound := map[uint64]bool{}
		total := 0
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			if len(open) == 0 || rapid.Bool().Draw(t, "opens") {
				total++
				open = append(open, l.open(decision.Decision{}))
				continue
			}
			i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
			e, ok := open[i], rapid.Bool().Draw(t, "bound")
			late := e.settled
			l.settle(e, given{devices: 3}, ok)
			l.settle(e, given{devices: 5}, !ok) // a second call does not count
			bound[e.decision.Number] = ok && !late
			open = slices.Delete(open, i, i+1)
		}
		for _, e := range open {
			l.settle(e, given{}, false)
		}
		if len(sent) != total || len(l.queue) != 0 {
			t.Fatalf("%d of %d were sent, %d are open", len(sent), total, len(l.queue))
		}
		for i, d := range sent {
			if d.Number != uint64(i+1) || d.Bound != bound[d.Number] || d.Bound && d.Devices != 3 {
				t.Fatalf("%d was sent: %+v", i, d)
			}
		}
	})
}
