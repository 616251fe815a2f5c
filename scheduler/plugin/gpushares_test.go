package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/plugin/nodereservation"
	"gnnsched/scheduler/policy/neural"
)

// gpuNode returns a node with shared devices.
func gpuNode(name, model string, devices int64) *v1.Node {
	n := st.MakeNode().Name(name).Capacity(map[v1.ResourceName]string{v1.ResourceCPU: "64", v1.ResourceMemory: "64Gi",
		v1.ResourcePods: "110"}).Label(kube.GPUModelLabel, model).Obj()
	kube.AddGPUs(n.Status.Capacity, devices)
	kube.AddGPUs(n.Status.Allocatable, devices)
	return n
}

// gpuPod returns a pod that requests the GPUs of r, by the resources and annotations for shares.
func gpuPod(name string, r cluster.Resources, models ...string) *v1.Pod {
	p := st.MakePod().Name(name).UID(name).Namespace("default").Obj()
	var list v1.ResourceList
	p.Annotations, list = kube.GPUAnnotations(r, models), kube.GPUResourceList(r)
	if list == nil {
		list = v1.ResourceList{}
	}
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: list, Limits: list}}}
	return p
}

func share(milli int64) cluster.Resources { return cluster.Resources{GPUMilli: milli} }

// A pod that has a node is back in the queue for a resize. It keeps its devices, which its node counts once.
func TestResizedPodKeepsItsDevices(t *testing.T) {
	const profile = "resized"
	b := newBed(t, profile, Args{Policy: "gpu-best-fit"})
	p := gpuPod("p", share(600))
	p.Spec.NodeName, p.Annotations[kube.GPUIndexAnnotation] = "n", "0"
	defer b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 1)}, pods: []*v1.Pod{p}})()
	b.refresh(t, profile)
	shares := fatal.Value(newGPUShares(b.ctx, nil, b.sched.Profiles[profile]))(t)
	state := framework.NewCycleState()
	if _, status := shares.(*gpuShares).PreFilter(b.ctx, state, p, nil); !status.IsSkip() || askKey.Read(state) != nil {
		t.Errorf("%v: GPUShares would give the pod devices again", status)
	}
	if next, _ := b.filter(t, profile, gpuPod("q", share(600))); len(next) != 0 {
		t.Error("the pod's share is free for another")
	}
}

// attempt schedules a pod up to the reservation of its node, and returns the cache's copy of the pod.
func (b *bed) attempt(t rapid.TB, profile string, pod *v1.Pod) (bound *v1.Pod, state fwk.CycleState, err error) {
	f, state := b.sched.Profiles[profile], framework.NewCycleState()
	info := fatal.Value(framework.NewPodInfo(pod))(t)
	fatal.If(t, b.sched.Cache.UpdateSnapshot(b.log, b.snapshot(profile)))
	result, err := b.sched.SchedulePod(b.ctx, f, state, &framework.QueuedPodInfo{PodInfo: info})
	if err != nil {
		return nil, state, err
	}
	bound = pod.DeepCopy()
	bound.Spec.NodeName = result.SuggestedHost
	fatal.If(t, b.sched.Cache.AssumePod(b.log, bound))
	if s := f.RunReservePluginsReserve(b.ctx, state, bound, result.SuggestedHost); !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	return bound, state, nil
}

// In every profile each bound pod has as many devices as it requests, of an allowed model, and no device
// is overcommitted. A refused pod fits on no node.
func TestDevicesAreNeverOvercommitted(t *testing.T) {
	for _, profile := range []string{defaultProfile, "fgd", "gpu-packing", "random"} {
		t.Run(profile, func(t *testing.T) {
			args := Args{Policy: profile}
			if profile == defaultProfile {
				args.Policy = "best-fit"
			}
			b := newBed(t, "ours-"+profile, args)
			if profile != defaultProfile {
				profile = "ours-" + profile
			}
			rapid.Check(t, func(t *rapid.T) { playShares(t, b, profile) })
			if n, err := Fallbacks(profile); n != 0 || err != nil {
				t.Errorf("%d decisions fell back, %v", n, err)
			}
		})
	}
}

func playShares(t *rapid.T, b *bed, profile string) {
	var state clusterState
	truth := map[string]*cluster.Node{} // the devices in use according to the annotations
	for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
		model, devices := rapid.SampledFrom([]string{"T4", "G2"}).Draw(t, "model"), rapid.IntRange(1, 4).Draw(t, "devices")
		n := gpuNode(fmt.Sprint("n", i), model, int64(devices))
		state.nodes = append(state.nodes, n)
		truth[n.Name] = &cluster.Node{Name: n.Name, GPUModel: model, Allocatable: cluster.Resources{GPU: int64(devices), Pods: 1000},
			GPUs: make([]int64, devices)}
	}
	defer b.load(t, state)()
	var running []*v1.Pod
	defer func() {
		for _, p := range running {
			fatal.If(t, b.sched.Cache.ForgetPod(b.log, p))
		}
	}()
	for i := range rapid.IntRange(1, 15).Draw(t, "pods") {
		r := share(int64(rapid.IntRange(1, 9).Draw(t, "tenths")) * 100)
		if rapid.Bool().Draw(t, "whole") {
			r = cluster.Resources{GPU: int64(rapid.IntRange(1, 3).Draw(t, "gpus"))}
		}
		models := rapid.SampledFrom([][]string{nil, {"T4"}, {"T4", "G2"}}).Draw(t, "models")
		pod := gpuPod(fmt.Sprint("p", i), r, models...)
		ask := &cluster.Pod{Requests: r, GPUModels: models}
		bound, _, err := b.attempt(t, profile, pod)
		if err != nil {
			for _, n := range truth {
				if n.Fit(ask) == cluster.Fits {
					t.Fatalf("%+v is refused, but fits %v of %s: %v", r, n.GPUs, n.GPUModel, err)
				}
			}
			continue
		}
		running = append(running, bound)
		n, on := truth[bound.Spec.NodeName], kube.Devices(bound.Annotations)
		if n.Fit(ask) != cluster.Fits || !n.FitsOn(r, on) {
			t.Fatalf("%+v of %v is on %q of %s, %v of %s", r, models, bound.Annotations[kube.GPUIndexAnnotation], n.Name, n.GPUs, n.GPUModel)
		}
		n.AddOn(r, on)
	}
}

// The status of a refused pod gives a helpful reason.
func TestGPUSharesReasons(t *testing.T) {
	const profile = "reasons"
	b := newBed(t, profile, Args{Policy: "gpu-best-fit"})
	var taken []*v1.Pod
	for _, device := range []string{"0", "1"} {
		p := gpuPod("taken-"+device, share(600))
		p.Spec.NodeName, p.Annotations[kube.GPUIndexAnnotation] = "n", device
		taken = append(taken, p)
	}
	defer b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2)}, pods: taken})()
	odd := gpuPod("odd", share(300))
	odd.Annotations[kube.GPUMilliAnnotation] = "half"
	for _, c := range []struct {
		pod  *v1.Pod
		want string
	}{
		{gpuPod("share", share(500)), "1 node(s) had no GPU with room for the share"},
		{gpuPod("whole", cluster.Resources{GPU: 1}), "1 node(s) had too few idle GPUs"},
		{gpuPod("model", share(100), "A10", "G2"), "1 node(s) had no GPU of a model that the pod allows"},
		{odd, `the pod's GPUs: annotation alibabacloud.com/gpu-milli is "half", not a whole number from 0 to 1000`},
	} {
		for _, p := range []string{profile, defaultProfile} {
			_, _, err := b.attempt(t, p, c.pod)
			var fit *framework.FitError
			if !errors.As(err, &fit) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s by %s: %v, want %q", c.pod.Name, p, err, c.want)
			}
		}
	}
}

// FGD knows the workload and chooses the device that it fragments least. A profile whose policy chooses
// no devices takes the device with the least room, which is another one here.
func TestPolicyChoosesTheDevice(t *testing.T) {
	const profile = "chooses"
	b := newBed(t, profile, Args{Policy: "fgd"})
	demand := func(name, index string, milli int64) *v1.Pod {
		p := gpuPod(name, share(milli))
		p.Spec.SchedulerName = profile
		p.Spec.NodeName, p.Annotations[kube.GPUIndexAnnotation] = "n", index
		return p
	}
	// The devices have 500 and 600 left, and most pods request 500. A share of 100 makes the first
	// device too small for such a pod, but not the second.
	state := clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2)}, pods: []*v1.Pod{demand("a", "0", 500), demand("b", "1", 400)}}
	for i := range 20 {
		other := fmt.Sprint("other", i)
		state.nodes = append(state.nodes, gpuNode(other, "G2", 1))
		p := gpuPod("on-"+other, share(500))
		p.Spec.SchedulerName = profile
		p.Spec.NodeName, p.Annotations[kube.GPUIndexAnnotation] = other, "0"
		state.pods = append(state.pods, p)
	}
	defer b.load(t, state)()
	for p, want := range map[string]string{profile: "1", defaultProfile: "0"} {
		pod, _, err := b.attempt(t, p, gpuPod("new", share(100), "T4"))
		fatal.If(t, err)
		if got := pod.Annotations[kube.GPUIndexAnnotation]; got != want {
			t.Errorf("%s chose device %s, want %s", p, got, want)
		}
		fatal.If(t, b.sched.Cache.ForgetPod(b.log, pod))
	}
}

// The binding request carries the devices. Upstream binds other pods, whose annotations stay as they
// are.
func TestBindWritesTheDevices(t *testing.T) {
	const profile = "binds"
	client := fake.NewClientset()
	b := newBedWith(t, client, profile, Args{Policy: "gpu-best-fit"})
	plain := gpuNode("plain", "", 2)
	delete(plain.Status.Allocatable, kube.GPUMilliResource)
	delete(plain.Status.Allocatable, kube.GPUCountResource)
	defer b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2), plain}})()
	whole := gpuPod("silent", cluster.Resources{GPU: 1})
	whole.Annotations = nil
	onPlain := whole.DeepCopy()
	onPlain.Name = "plain"
	onPlain.UID = "plain"
	onPlain.Spec.NodeSelector = map[string]string{"plain": ""}
	for _, c := range []struct {
		pod  *v1.Pod
		on   string
		want string
	}{
		{gpuPod("share", share(300)), "n", "0"},
		{gpuPod("whole", cluster.Resources{GPU: 2}), "n", "0-1"},
		{whole, "n", "0"},                             // the node shares its GPUs
		{whole, "plain", ""},                          // the node does not
		{gpuPod("cpu", cluster.Resources{}), "n", ""}, // nothing to write
	} {
		f, state := b.sched.Profiles[profile], framework.NewCycleState()
		fatal.If(t, b.sched.Cache.UpdateSnapshot(b.log, b.snapshot(profile)))
		f.RunPreFilterPlugins(b.ctx, state, c.pod)
		pod := c.pod.DeepCopy()
		if s := f.RunReservePluginsReserve(b.ctx, state, pod, c.on); !s.IsSuccess() {
			t.Fatal(s.AsError())
		}
		var got map[string]string
		client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if a.GetSubresource() == "binding" {
				got = a.(clienttesting.CreateAction).GetObject().(*v1.Binding).Annotations
			}
			return true, nil, nil
		})
		if s := f.RunBindPlugins(b.ctx, state, pod, c.on); !s.IsSuccess() {
			t.Fatal(s.AsError())
		}
		if got[kube.GPUIndexAnnotation] != c.want || pod.Annotations[kube.GPUIndexAnnotation] != c.want {
			t.Errorf("%s on %s: bound with %v, the copy has %v, want %q", c.pod.Name, c.on, got, pod.Annotations, c.want)
		}
		if c.pod.Annotations[kube.GPUIndexAnnotation] != "" {
			t.Errorf("the pod in the queue has %v", c.pod.Annotations)
		}
		f.RunReservePluginsUnreserve(b.ctx, state, pod, c.on)
	}
}

// Reserve refuses a pod if its device was given to another pod after the filters ran.
func TestReserveOfADeviceThatIsTaken(t *testing.T) {
	const profile = "taken"
	b := newBed(t, profile, Args{Policy: "gpu-best-fit"})
	first := gpuPod("first", share(600))
	first.Spec.NodeName, first.Annotations[kube.GPUIndexAnnotation] = "n", "0"
	defer b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 1)}, pods: []*v1.Pod{first}})()
	fatal.If(t, b.sched.Cache.UpdateSnapshot(b.log, b.snapshot(profile)))
	f := b.sched.Profiles[profile]
	state := framework.NewCycleState()
	pod := gpuPod("second", share(600))
	f.RunPreFilterPlugins(b.ctx, state, pod)
	if s := f.RunReservePluginsReserve(b.ctx, state, pod, "n"); s.Code() != fwk.Unschedulable {
		t.Errorf("got %v", s)
	}
}

func TestGPUSharesSigns(t *testing.T) {
	g := &gpuShares{}
	if _, s := g.SignPod(context.Background(), gpuPod("cpu", cluster.Resources{})); !s.IsSuccess() {
		t.Errorf("a pod without GPUs is not batched: %v", s)
	}
	if _, s := g.SignPod(context.Background(), gpuPod("gpu", share(5))); s.IsSuccess() {
		t.Error("a pod with a share is batched")
	}
}

// Of tied best nodes the one with the first name gets 100, in whatever order the nodes come.
func TestTiesGoToTheFirstName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.Permutation([]int32{0, 1, 2, 3, 4, 5}).Draw(t, "rows")
		raw := make([]float32, len(rows))
		best := int32(len(rows))
		for i, r := range rows {
			if raw[i] = float32(rapid.IntRange(0, 1).Draw(t, "score")); raw[i] == 1 {
				best = min(best, r)
			}
		}
		if best == int32(len(rows)) {
			best = 0
		}
		out := make([]int8, len(rows))
		toNodeScores(raw, out, func(i int) string { return fmt.Sprint("n", rows[i]) }, false)
		if i := slices.Index(out, 100); rows[i] != best {
			t.Fatalf("row %d is the best, want %d", rows[i], best)
		}
	})
}

// A node that comes back before its slices gets no pod with GPUs while claims hold some of them: nobody can say which are free.
func TestNodeBeforeItsSlices(t *testing.T) {
	const profile = "gpu-gnn"
	b := claimBed(t, fake.NewClientset(slices.DeleteFunc(claimObjects(), func(o runtime.Object) bool {
		s, is := o.(*resourceapi.ResourceSlice)
		return is && s.Name == "n0"
	})...), []string{"upstream", "claims", profile})
	for _, node := range []string{"n0", "n1"} {
		b.sched.Cache.AddNode(b.log, gpuNode(node, "T4", claimDevices))
	}
	fatal.If(t, b.sched.Cache.UpdateSnapshot(b.log, b.snapshot(profile)))
	f, pod := b.sched.Profiles[profile], gpuPod("p", share(100))
	for node, want := range map[string]bool{"n0": true, "n1": false} {
		info := fatal.Value(b.snapshot(profile).NodeInfos().Get(node))(t)
		until(t, func() bool { // the plugin hears of the claims a moment after the informers do
			state := framework.NewCycleState()
			if _, s, _ := f.RunPreFilterPlugins(b.ctx, state, pod); !s.IsSuccess() {
				t.Fatal(s)
			}
			return strings.Contains(f.RunFilterPlugins(b.ctx, state, pod, info).Message(), "no ResourceSlice yet") == want
		})
	}
}

// A GPU that is held for a pod which is to come is kept from others, and is the one that this pod gets.
func TestHeldDevices(t *testing.T) {
	const profile = "held"
	n := gpuNode("n", "T4", 2)
	text := fatal.Value(json.Marshal([]nodereservation.Reservation{{
		Owner: "set", Pods: 2, Until: time.Now().Add(time.Hour), GPUs: []string{"1", "0"}, GPU: share(600),
	}}))(t)
	n.Annotations = map[string]string{kube.HoldsAnnotation: string(text)}
	b := newBed(t, profile, Args{Policy: "gpu-best-fit"}, n)
	fatal.If(t, wait.PollUntilContextTimeout(b.ctx, time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return knownProfile(b.sched.Profiles[profile]).nodeReservations().Any(), nil
	}))
	defer b.load(t, clusterState{nodes: []*v1.Node{n}})()
	owned := func(name string) *v1.Pod {
		p := gpuPod(name, share(600))
		p.OwnerReferences = []metav1.OwnerReference{{UID: "set", Controller: ptr.To(true)}}
		return p
	}
	for _, c := range []struct {
		pod  *v1.Pod
		want string // "": it gets none
	}{{gpuPod("large", share(500)), ""}, {owned("first"), "1"}, {gpuPod("again", share(500)), ""}, {gpuPod("small", share(400)), "1"},
		{owned("second"), "0"}} {
		pod, _, err := b.attempt(t, profile, c.pod)
		if got := ""; err == nil {
			if got = pod.Annotations[kube.GPUIndexAnnotation]; got != c.want {
				t.Errorf("%s is on GPU %s, want %s", c.pod.Name, got, c.want)
			}
		} else if c.want != "" {
			t.Errorf("%s: %v", c.pod.Name, err)
		}
	}
}

// A profile without a network keeps its mirror when GPUShares asks it for devices: nothing is damaged,
// and converting the whole cluster again for each pod is dear.
func TestNoNetworkKeepsTheMirror(t *testing.T) {
	const profile = "nonetwork"
	b := newBed(t, profile, Args{Checkpoint: "/no/such/file"})
	defer b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2), gpuNode("m", "T4", 2)}})()
	if _, _, err := b.attempt(t, profile, gpuPod("a", share(600))); err != nil {
		t.Fatal(err)
	}
	if got := len(b.plugin.mirror.infos); got != 2 {
		t.Errorf("the mirror has %d rows, want 2", got)
	}
}

// While kube-scheduler tries a group, it reserves nodes that it gives back. Only the last reservation is a
// decision and a step.
func TestStepsOfAGroup(t *testing.T) {
	const profile = "group"
	b, _ := newLearningBed(t, profile, learning(t, 0))
	node := func(name string) *v1.Node {
		return st.MakeNode().Name(name).Capacity(map[v1.ResourceName]string{v1.ResourceCPU: "10", v1.ResourceMemory: "10Gi",
			v1.ResourcePods: "110"}).Obj()
	}
	defer b.load(t, clusterState{nodes: []*v1.Node{node("n"), node("m")}})()
	b.refresh(t, profile)
	pod := func(name string) *v1.Pod {
		return st.MakePod().Name(name).UID(name).Namespace("default").Req(map[v1.ResourceName]string{v1.ResourceCPU: "4"}).Obj()
	}
	steps := func() (out []decision.Decision) {
		b.learner.ledger.mu.Lock()
		defer b.learner.ledger.mu.Unlock()
		for _, e := range b.learner.ledger.queue {
			if e.decision.Step != nil {
				out = append(out, e.decision)
			}
		}
		return out
	}
	p, q := pod("p"), pod("q")
	b.learner.arrivals.arrives(p, nil)
	b.learner.arrivals.arrives(q, nil)
	ofP := b.scoredOn(t, profile, p)
	triedP := b.try(t, profile, ofP, p, "n")
	ofQ := b.scoredOn(t, profile, q)
	triedQ := b.try(t, profile, ofQ, q, "n")
	b.untry(t, profile, ofQ, triedQ)
	b.untry(t, profile, ofP, triedP)
	if got := steps(); len(got) != 0 {
		t.Fatalf("%d steps of pods that were only tried", len(got))
	}
	if _, s := b.reserve(t, profile, ofP, p, "n"); !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	got := steps()
	if len(got) != 1 || got[0].Number != 1 || got[0].Step.(experience.Step).Number != 1 {
		t.Fatalf("%+v, want the first step of the first decision", got)
	}
}

// scoredOn runs the filters and scores the feasible nodes for a pod.
func (b *bed) scoredOn(t *testing.T, profile string, pod *v1.Pod) fwk.CycleState {
	t.Helper()
	nodes, state := b.filter(t, profile, pod)
	if s := b.sched.Profiles[profile].RunPreScorePlugins(b.ctx, state, pod, nodes); !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	return state
}

// When the pods of a group are reserved, the network chooses each one's devices on the cluster with the
// pods that were reserved before, though the snapshot does not show them and other pods were scored last.
func TestGroupDevicesAreChosenOnThePresentCluster(t *testing.T) {
	stale := 0
	for seed := range uint64(12) {
		profile := fmt.Sprint("group-devices-", seed)
		b := newBed(t, profile, Args{Checkpoint: untrainedOf(t, gpuArchitecture, seed, nil)})
		state := clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 4), gpuNode("m", "T4", 4)}}
		for i, milli := range []int64{500, 300, 700} {
			p := gpuPod(fmt.Sprint("on-", i), share(milli))
			p.Spec.NodeName, p.Annotations[kube.GPUIndexAnnotation] = "n", fmt.Sprint(i)
			state.pods = append(state.pods, p)
		}
		defer b.load(t, state)()
		b.refresh(t, profile)
		var pods, tried []*v1.Pod
		var cycles []fwk.CycleState
		for i, milli := range []int64{300, 500, 200} {
			p := gpuPod(fmt.Sprint("p", i), share(milli))
			cycle := b.scoredOn(t, profile, p)
			pods, cycles, tried = append(pods, p), append(cycles, cycle), append(tried, b.try(t, profile, cycle, p, "n"))
		}
		for i := range slices.Backward(tried) {
			b.untry(t, profile, cycles[i], tried[i])
		}
		var given []kube.RunningPod
		for i, p := range pods {
			m := mirror{reserved: newReservations(b.log, b.snapshot(profile))}
			infos := fatal.Value(b.snapshot(profile).List())(t)
			m.sync(infos, false)
			row, waiting := m.row["n"], convertPod(p)
			m.snapshot.Nodes[row] = with(m.snapshot.Nodes[row], given)
			fresh := neural.New("fresh", b.plugin.active.load().(*networkDecider).net, b.plugin.demand.latest)
			fatal.If(t, fresh.Score(&m.snapshot, &waiting, []int32{row}, make([]float32, 1)))
			want := fresh.Devices(m.snapshot.Nodes[row], &waiting)
			bound, s := b.reserve(t, profile, cycles[i], p, "n")
			if !s.IsSuccess() {
				t.Fatal(s.AsError())
			}
			if got := bound.Annotations[kube.GPUIndexAnnotation]; got != kube.FormatDevices(want) {
				t.Errorf("seed %d: %s is on %q, the network wants %q", seed, p.Name, got, kube.FormatDevices(want))
			}
			if want != m.snapshot.Nodes[row].ChooseDevices(waiting.Requests) {
				stale++
			}
			given = append(given, kube.RunningPod{Requests: share(waiting.Requests.GPUMilli), Devices: want})
			defer func() { _ = b.sched.Cache.ForgetPod(b.log, bound) }()
		}
	}
	if stale == 0 {
		t.Error("no network chose other devices than the default, so that nothing is shown")
	}
}

// Devices that were chosen while a group was tried are not bound if the pod is reserved where the kubelet
// chooses them.
func TestTryLeavesNoDevices(t *testing.T) {
	const profile = "tries-devices"
	b := newBed(t, profile, Args{Policy: "gpu-best-fit"})
	plain := st.MakeNode().Name("plain").Capacity(map[v1.ResourceName]string{v1.ResourceCPU: "64", v1.ResourceMemory: "64Gi",
		v1.ResourcePods: "110", kube.GPUResource: "4"}).Obj()
	defer b.load(t, clusterState{nodes: []*v1.Node{gpuNode("shared", "T4", 4), plain}})()
	b.refresh(t, profile)
	pod := gpuPod("p", cluster.Resources{GPU: 1})
	pod.Annotations = nil
	_, state := b.filter(t, profile, pod)
	tried := b.try(t, profile, state, pod, "shared")
	if reservedDevices(state) == 0 {
		t.Fatal("the try chose no devices")
	}
	b.untry(t, profile, state, tried)
	bound, s := b.reserve(t, profile, state, pod, "plain")
	if !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	defer b.unreserve(t, profile, state, bound)
	if on := reservedDevices(state); on != 0 || bound.Annotations[kube.GPUIndexAnnotation] != "" {
		t.Errorf("devices %v of the try are still there, annotations %v", on, bound.Annotations)
	}
}
