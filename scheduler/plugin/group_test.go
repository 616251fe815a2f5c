package plugin

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/policy/neural"
)

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
// decision and a step, and its costs are those without and with the pod, which the try has put on the
// snapshot's node.
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
	if s := got[0].Step.(experience.Step); s.Before != 0 || s.After <= 0 {
		t.Errorf("costs %v and %v on an empty cluster, want 0 and more", s.Before, s.After)
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
			infos, err := b.snapshot(profile).List()
			fatal.If(t, err)
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
