package plugin

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
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
		return st.MakeNode().Name(name).Capacity(map[v1.ResourceName]string{v1.ResourceCPU: "10", v1.ResourceMemory: "10Gi", v1.ResourcePods: "110"}).Obj()
	}
	defer b.load(t, clusterState{nodes: []*v1.Node{node("n"), node("m")}})()
	b.refresh(t, profile)
	pod := func(name string) *v1.Pod {
		return st.MakePod().Name(name).UID(name).Namespace("default").Req(map[v1.ResourceName]string{v1.ResourceCPU: "4"}).Obj()
	}
	score := func(p *v1.Pod) fwk.CycleState {
		nodes, state := b.filter(t, profile, p)
		if s := b.sched.Profiles[profile].RunPreScorePlugins(b.ctx, state, p, nodes); !s.IsSuccess() {
			t.Fatal(s.AsError())
		}
		return state
	}
	steps := func() []openStep {
		b.learner.steps.mu.Lock()
		defer b.learner.steps.mu.Unlock()
		return slices.Clone(b.learner.steps.queue)
	}
	p, q := pod("p"), pod("q")
	ofP := score(p)
	triedP := b.try(t, profile, ofP, p, "n")
	ofQ := score(q)
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
	if len(got) != 1 || got[0].decision != 1 || got[0].step.Number != 1 {
		t.Fatalf("%+v, want the first step of the first decision", got)
	}
	if s := got[0].step; s.Before != 0 || s.After <= 0 {
		t.Errorf("costs %v and %v on an empty cluster, want 0 and more", s.Before, s.After)
	}
}
