package plugin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
)

// refresh takes a new snapshot of the cache, as kube-scheduler does before it schedules a pod or a
// group.
func (b *bed) refresh(t rapid.TB, profile string) {
	fatal.If(t, b.sched.Cache.UpdateSnapshot(b.log, b.snapshot(profile)))
}

// choose runs the filters for a pod on the present snapshot and returns the first feasible node and
// the state of its cycle. The node is nil if the pod fits nowhere.
func (b *bed) choose(t rapid.TB, profile string, pod *v1.Pod) (fwk.NodeInfo, fwk.CycleState) {
	feasible, state := b.filter(t, profile, pod)
	if len(feasible) == 0 {
		return nil, state
	}
	return feasible[0], state
}

// groupCycle marks the state of a pod whose group is tried. Nothing calls its methods.
type groupCycle struct{ fwk.PodGroupCycleState }

// try puts a pod of a group on a node of the snapshot, but not of the cache, and reserves its devices.
func (b *bed) try(t rapid.TB, profile string, state fwk.CycleState, pod *v1.Pod, node string) *v1.Pod {
	info := fatal.Value(framework.NewPodInfo(pod.DeepCopy()))(t)
	info.Pod.Spec.NodeName = node
	state.(*framework.CycleState).SetPodGroupSchedulingCycle(groupCycle{})
	fatal.If(t, b.snapshot(profile).AssumePod(info))
	if s := b.sched.Profiles[profile].RunReservePluginsReserve(b.ctx, state, info.Pod, node); !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	return info.Pod
}

// untry undoes try.
func (b *bed) untry(t rapid.TB, profile string, state fwk.CycleState, pod *v1.Pod) {
	b.sched.Profiles[profile].RunReservePluginsUnreserve(b.ctx, state, pod, pod.Spec.NodeName)
	state.(*framework.CycleState).SetPodGroupSchedulingCycle(nil)
	fatal.If(t, b.snapshot(profile).ForgetPod(b.log, pod))
}

// reserve counts a pod on a node and reserves its devices, without a new snapshot.
func (b *bed) reserve(t rapid.TB, profile string, state fwk.CycleState, pod *v1.Pod, node string) (*v1.Pod, *fwk.Status) {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	fatal.If(t, b.sched.Cache.AssumePod(b.log, pod))
	return pod, b.sched.Profiles[profile].RunReservePluginsReserve(b.ctx, state, pod, node)
}

// unreserve undoes reserve.
func (b *bed) unreserve(t rapid.TB, profile string, state fwk.CycleState, pod *v1.Pod) {
	b.sched.Profiles[profile].RunReservePluginsUnreserve(b.ctx, state, pod, pod.Spec.NodeName)
	fatal.If(t, b.sched.Cache.ForgetPod(b.log, pod))
}

// Two pods that are reserved on one snapshot, as the pods of a group are once the group fits, never
// get the same device, not even in two profiles. A third finds no room, until one is taken back.
func TestReservationsWithoutASnapshotBetween(t *testing.T) {
	for _, other := range []string{"one-snapshot", defaultProfile} {
		t.Run(other, func(t *testing.T) {
			const profile = "one-snapshot"
			b := newBed(t, profile, Args{Policy: "gpu-best-fit"})
			defer b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2)}})()
			b.refresh(t, profile)
			pods := []*v1.Pod{gpuPod("a", share(600)), gpuPod("b", share(600)), gpuPod("c", share(600))}
			profiles := []string{profile, other, profile}
			var states []fwk.CycleState
			for i, p := range pods {
				node, state := b.choose(t, profiles[i], p)
				if node == nil {
					t.Fatalf("%s fits nowhere on an empty node", p.Name)
				}
				states = append(states, state)
			}
			first, s := b.reserve(t, profiles[0], states[0], pods[0], "n")
			if !s.IsSuccess() {
				t.Fatal(s.AsError())
			}
			second, s := b.reserve(t, profiles[1], states[1], pods[1], "n")
			if !s.IsSuccess() {
				t.Fatal(s.AsError())
			}
			if x, y := first.Annotations[kube.GPUIndexAnnotation], second.Annotations[kube.GPUIndexAnnotation]; x == y {
				t.Errorf("both are on device %s", x)
			}
			third, s := b.reserve(t, profiles[2], states[2], pods[2], "n")
			if s.Code() != fwk.Unschedulable {
				t.Errorf("a third share of 600 of two devices: %v", s)
			}
			b.unreserve(t, profiles[2], states[2], third)
			b.unreserve(t, profiles[0], states[0], first)
			third, s = b.reserve(t, profiles[2], states[2], pods[2], "n")
			if !s.IsSuccess() || third.Annotations[kube.GPUIndexAnnotation] != first.Annotations[kube.GPUIndexAnnotation] {
				t.Errorf("the device that was taken back is not given again: %v", s)
			}
			b.unreserve(t, profiles[2], states[2], third)
			b.unreserve(t, profiles[1], states[1], second)
		})
	}
}

// While a group is tried, its pods are on the snapshot's nodes with the generations of before. Each
// pod must find the devices of the pods before it taken.
func TestReservationsOfAGroupThatIsTried(t *testing.T) {
	const profile = "tries"
	b := newBed(t, profile, Args{Policy: "gpu-best-fit"})
	defer b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2)}})()
	b.refresh(t, profile)
	for range 2 { // as if a preemption lay between
		var states []fwk.CycleState
		var tried []*v1.Pod
		for i, want := range []string{"0", "1"} {
			pod := gpuPod(fmt.Sprint("p", i), share(600))
			node, state := b.choose(t, profile, pod)
			if node == nil {
				t.Fatalf("pod %d fits nowhere", i)
			}
			pod = b.try(t, profile, state, pod, "n")
			if got := pod.Annotations[kube.GPUIndexAnnotation]; got != want {
				t.Errorf("pod %d is on device %s, want %s", i, got, want)
			}
			states, tried = append(states, state), append(tried, pod)
		}
		if node, _ := b.choose(t, profile, gpuPod("full", share(600))); node != nil {
			t.Error("a third share of 600 fits on two devices")
		}
		for i := range slices.Backward(tried) {
			b.untry(t, profile, states[i], tried[i])
		}
	}
}

// groupPlay schedules groups of pods and lets pods leave, at random.
type groupPlay struct {
	b       *bed
	profile string
	truth   map[string]*cluster.Node // the devices in use according to the annotations
	running []boundPod
	made    int
}

// boundPod is a bound pod and what it requests.
type boundPod struct {
	pod *v1.Pod
	r   cluster.Resources
}

// Groups and single pods arrive, fail to bind and leave at random. No device is given to two pods, each
// pod that fits on the snapshot can be reserved, and no reservations are left over.
func TestGroupsNeverShareADevice(t *testing.T) {
	for _, policy := range []string{"fgd", "gpu-best-fit", "random"} {
		t.Run(policy, func(t *testing.T) {
			profile := "groups-" + policy
			b := newBed(t, profile, Args{Policy: policy})
			rapid.Check(t, func(t *rapid.T) {
				var state clusterState
				g := &groupPlay{b: b, profile: profile, truth: map[string]*cluster.Node{}}
				for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
					devices := rapid.IntRange(1, 3).Draw(t, "devices")
					n := gpuNode(fmt.Sprint("n", i), "T4", int64(devices))
					state.nodes = append(state.nodes, n)
					g.truth[n.Name] = &cluster.Node{Name: n.Name, Allocatable: cluster.Resources{GPU: int64(devices), Pods: 1000},
						GPUs: make([]int64, devices)}
				}
				defer b.load(t, state)()
				defer func() {
					for _, p := range g.running {
						g.forget(t, p.pod)
					}
				}()
				for range rapid.IntRange(1, 8).Draw(t, "cycles") {
					if len(g.running) > 0 && rapid.Bool().Draw(t, "leaves") {
						g.leave(t, rapid.IntRange(0, len(g.running)-1).Draw(t, "who"))
					}
					g.schedule(t, rapid.IntRange(1, 4).Draw(t, "size"))
				}
			})
		})
	}
}

// schedule tries a group and, pod by pod, gives it the nodes on which it fitted. Some bindings fail.
func (g *groupPlay) schedule(t *rapid.T, size int) {
	b := g.b
	b.refresh(t, g.profile)
	var pods, tried []*v1.Pod
	var states []fwk.CycleState
	var requests []cluster.Resources
	for range size {
		r := share(int64(rapid.IntRange(1, 9).Draw(t, "tenths")) * 100)
		if rapid.Bool().Draw(t, "whole") {
			r = cluster.Resources{GPU: int64(rapid.IntRange(1, 2).Draw(t, "gpus"))}
		}
		g.made++
		pod := gpuPod(fmt.Sprint("p", g.made), r)
		node, state := b.choose(t, g.profile, pod)
		if n := len(b.reservations().byPod); n > size {
			t.Fatalf("%d reservations for a group of %d", n, size)
		}
		if node != nil {
			pods = append(pods, pod)
			states = append(states, state)
			requests = append(requests, r)
			tried = append(tried, b.try(t, g.profile, state, pod, node.Node().Name))
		}
	}
	for i := range slices.Backward(tried) {
		b.untry(t, g.profile, states[i], tried[i])
	}
	for i, pod := range pods {
		pod, s := b.reserve(t, g.profile, states[i], pod, tried[i].Spec.NodeName)
		if !s.IsSuccess() || rapid.IntRange(0, 3).Draw(t, "binding fails") == 0 {
			b.unreserve(t, g.profile, states[i], pod)
			continue
		}
		g.running = append(g.running, boundPod{pod, requests[i]})
		n := g.truth[pod.Spec.NodeName]
		r := requests[i]
		on := kube.Devices(pod.Annotations)
		if !n.FitsOn(r, on) {
			t.Fatalf("%+v is on %q of %v", r, pod.Annotations[kube.GPUIndexAnnotation], n.GPUs)
		}
		n.AddOn(r, on)
	}
}

// leave ends a running pod.
func (g *groupPlay) leave(t *rapid.T, i int) {
	p := g.running[i]
	g.running = slices.Delete(g.running, i, i+1)
	g.forget(t, p.pod)
	g.truth[p.pod.Spec.NodeName].Remove(p.r, kube.Devices(p.pod.Annotations))
}

func (g *groupPlay) forget(t *rapid.T, p *v1.Pod) {
	fatal.If(t, g.b.sched.Cache.ForgetPod(g.b.log, p))
}

// reservations returns those of the bed's scheduler.
func (b *bed) reservations() *reservations {
	return knownProfile(b.sched.Profiles[defaultProfile]).reserved
}

// A reservation ends as soon as the snapshot has caught up: it shows the pod, or the pod or its node is
// gone.
func TestReservationsAreSwept(t *testing.T) {
	const profile = "swept"
	b := newBed(t, profile, Args{Policy: "gpu-best-fit"})
	node := gpuNode("n", "T4", 1)
	b.sched.Cache.AddNode(b.log, node)
	next := func() int { // begins another cycle
		b.refresh(t, profile)
		b.filter(t, profile, gpuPod("next", share(100)))
		return len(b.reservations().byPod)
	}
	for _, end := range []string{"shown", "deleted", "node deleted"} {
		b.refresh(t, profile)
		pod := gpuPod("p", share(600))
		_, state := b.choose(t, profile, pod)
		pod, s := b.reserve(t, profile, state, pod, "n")
		if !s.IsSuccess() {
			t.Fatal(s.AsError())
		}
		if n := len(b.reservations().byPod); n != 1 {
			t.Fatalf("%s: %d reservations, want 1", end, n)
		}
		if end != "shown" {
			fatal.If(t, b.sched.Cache.ForgetPod(b.log, pod))
		}
		if end == "node deleted" {
			fatal.If(t, b.sched.Cache.RemoveNode(b.log, node))
		}
		if n := next(); n != 0 {
			t.Errorf("%s: %d reservations are left", end, n)
		}
		if end == "shown" {
			fatal.If(t, b.sched.Cache.ForgetPod(b.log, pod))
		}
	}
}

// edit changes an annotation of a running pod, as its owner can.
func (b *bed) edit(t rapid.TB, p *v1.Pod, key, value string) *v1.Pod {
	edited := p.DeepCopy()
	edited.Annotations[key] = value
	fatal.If(t, b.sched.Cache.UpdatePod(b.log, p, edited))
	return edited
}

// A running pod that names another device, or another amount, stays where it is: its neighbour's device
// is not given away, nor its own. That holds for pods that were seen first and for those that were
// reserved.
func TestEditedAnnotationsMoveNothing(t *testing.T) {
	for name, edits := range map[string][2]string{
		"device": {kube.GPUIndexAnnotation, "0"},
		"none":   {kube.GPUIndexAnnotation, ""},
		"amount": {kube.GPUMilliAnnotation, "1"},
	} {
		for _, policy := range []string{"fgd", "gpu-best-fit"} {
			t.Run(name+" "+policy, func(t *testing.T) {
				b := newBed(t, "pinned", Args{Policy: policy})
				honest, liar := on("n", "0", "honest", share(600), 0), on("n", "1", "liar", share(900), 0)
				delete(liar.Spec.Containers[0].Resources.Requests, kube.GPUMilliResource) // only annotations say it
				b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2)}, pods: []*v1.Pod{honest, liar}})
				first, _, err := b.attempt(t, "pinned", gpuPod("first", share(100)))
				if err != nil || first.Annotations[kube.GPUIndexAnnotation] == "" {
					t.Fatal(err)
				}
				liar = b.edit(t, liar, edits[0], edits[1])
				fatal.If(t, b.sched.Cache.AddPod(b.log, first))
				first = b.edit(t, first, kube.GPUIndexAnnotation, "0-1")
				fatal.If(t, b.sched.Cache.RemovePod(b.log, first))
				for _, p := range []string{"pinned", defaultProfile} {
					second, _, err := b.attempt(t, p, gpuPod("second", share(400)))
					if err != nil || second.Annotations[kube.GPUIndexAnnotation] != "0" {
						t.Fatalf("%s: it is on device %v: %v", p, second, err)
					}
					fatal.If(t, b.sched.Cache.ForgetPod(b.log, second))
				}
			})
		}
	}
}

// A pod that was reserved keeps its devices, whatever its owner has written by the time that the
// snapshot shows it.
func TestReservedPodsArePinned(t *testing.T) {
	b := newBed(t, "pinned", Args{Policy: "gpu-best-fit"})
	b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2)}})
	for i, want := range []string{"0", "1"} {
		p, _, err := b.attempt(t, "pinned", gpuPod(fmt.Sprint("p", i), share(900)))
		if err != nil || p.Annotations[kube.GPUIndexAnnotation] != want {
			t.Fatalf("%v, %v", p, err)
		}
		// The informer shows the bound pod with another annotation at once.
		edited := p.DeepCopy()
		edited.Annotations[kube.GPUIndexAnnotation] = fmt.Sprint(1 - i)
		fatal.If(t, b.sched.Cache.AddPod(b.log, edited))
	}
	if n := len(b.reservations().pins["n"]); n != 2 {
		t.Errorf("%d pods are pinned", n)
	}
	b.refresh(t, "pinned")
	info := fatal.Value(b.snapshot("pinned").NodeInfos().Get("n"))(t)
	n := &cluster.Node{Name: "n", GPUs: make([]int64, 2)}
	b.reservations().place(n, info, func(p *v1.Pod, _ kube.RunningPod) bool { return p.Name == "p0" })
	if n.GPUs[0] != 900 || n.GPUs[1] != 0 {
		t.Errorf("p0 counts on %v", n.GPUs)
	}
}

// Pins end with their pods and nodes.
func TestPinsEnd(t *testing.T) {
	b := newBed(t, "ends", Args{Policy: "gpu-best-fit"})
	for i := range 300 {
		name := fmt.Sprint("n", i)
		unload := b.load(t, clusterState{nodes: []*v1.Node{gpuNode(name, "T4", 2)}, pods: []*v1.Pod{on(name, "0", "a"+name, share(1), 0)}})
		if i%2 == 0 {
			b.refresh(t, "ends")
			b.filter(t, "ends", gpuPod("next", share(100)))
		}
		unload()
	}
	if n := len(b.reservations().pins); n > 110 {
		t.Errorf("pods of %d nodes are pinned, and no node is left", n)
	}
	p := on("n", "0", "p", share(1), 0)
	b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2)}, pods: []*v1.Pod{p}})
	for _, want := range []int{1, 0} {
		b.refresh(t, "ends")
		b.filter(t, "ends", gpuPod("next", share(100)))
		if n := len(b.reservations().pins["n"]); n != want {
			t.Errorf("%d pods are pinned, want %d", n, want)
		}
		if want == 1 {
			fatal.If(t, b.sched.Cache.RemovePod(b.log, p))
		}
	}
}

// A device that is given twice is logged and counted once for each pod.
func TestConflictsAreReportedOnce(t *testing.T) {
	var lines []string
	b := newBed(t, "conflicts", Args{Policy: "gpu-best-fit"})
	b.reservations().log = funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	count := func() int {
		n := fatal.Value(testutil.GetCounterMetricValue(deviceConflicts))(t)
		return int(n)
	}
	before := count()
	b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 2)}})
	ours, _, err := b.attempt(t, "conflicts", gpuPod("ours", share(600)))
	fatal.If(t, err)
	device := ours.Annotations[kube.GPUIndexAnnotation]
	look := func(asks int64) string {
		b.refresh(t, "conflicts")
		pod := gpuPod("next", share(asks))
		pod.UID = types.UID(fmt.Sprint(asks))
		b.filter(t, "conflicts", pod)
		return strings.Join(lines, "\n")
	}
	foreign := func(name, device string, r cluster.Resources) *v1.Pod {
		p := on("n", device, name, r, 0)
		p.Spec.SchedulerName = "other"
		fatal.If(t, b.sched.Cache.AddPod(b.log, p))
		return p
	}
	if out := look(1); len(lines) > 0 || count() != before {
		t.Fatalf("nothing is wrong: %s", out)
	}
	foreign("twice", device, share(500))
	for range 3 {
		look(2)
	}
	if out := look(3); len(lines) != 1 || count() != before+1 || !strings.Contains(out, "twice") || !strings.Contains(out, `"other"`) {
		t.Errorf("counted %d: %s", count()-before, out)
	}
	odd := foreign("no such device", "7", share(1))
	if out := look(6); len(lines) != 1 {
		t.Errorf("a device that does not exist is given twice: %s", out)
	}
	fatal.If(t, b.sched.Cache.RemovePod(b.log, odd))
	foreign("unnamed", "", cluster.Resources{GPU: 2}) // for which no device is idle
	if out := look(4); len(lines) != 2 || count() != before+2 || !strings.Contains(out, "unnamed") {
		t.Errorf("counted %d: %s", count()-before, out)
	}
}

// A pod without GPUs that names devices holds none, and loses the annotation's value when it is bound.
func TestIndexOfAPodWithoutGPUs(t *testing.T) {
	b := newBed(t, "index", Args{Policy: "gpu-best-fit"})
	cpu := gpuPod("cpu", cluster.Resources{})
	cpu.Annotations = map[string]string{kube.GPUIndexAnnotation: "0", "kept": "x"}
	b.load(t, clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 1)}})
	p, state, err := b.attempt(t, "index", cpu)
	fatal.If(t, err)
	if p.Annotations[kube.GPUIndexAnnotation] != "" || p.Annotations["kept"] != "x" {
		t.Errorf("the copy has %v", p.Annotations)
	}
	if cpu.Annotations[kube.GPUIndexAnnotation] != "0" {
		t.Error("the pod in the queue is changed")
	}
	if on, has := devicesKey.Find(state); !has || on != 0 {
		t.Errorf("its binding writes %v, %v", on, err)
	}
	if _, _, err := b.attempt(t, "index", gpuPod("gpu", cluster.Resources{GPU: 1})); err != nil {
		t.Errorf("the device is not idle: %v", err)
	}
}
