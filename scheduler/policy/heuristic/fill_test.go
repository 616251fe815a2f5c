package heuristic

import (
	"slices"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/policytest"
)

// A share of 300 goes beside one of 700, where nothing stays idle, and not beside one of 500, where another of 500 would fit.
func TestFillShareGoesWhereLeastStaysIdle(t *testing.T) {
	typical := fragmentation.NewTypical([]fragmentation.Demand{
		{Requests: policytest.Share(500), Count: 2}, {Requests: policytest.Share(300), Count: 1}, {Requests: policytest.Share(700), Count: 1}})
	s := &cluster.Snapshot{Nodes: []*cluster.Node{policytest.GPUNode(64_000, 1, policytest.Share(500)),
		policytest.GPUNode(64_000, 2, policytest.Share(500), policytest.Share(700))}}
	pod := &cluster.Pod{Requests: policytest.Share(300)}
	p := gpuFill.New(policy.Setting{Typical: typical})
	if got := policytest.Scores(t, p, s, pod, []int32{0, 1}); policy.Best(got) != 1 {
		t.Errorf("scores %v", got)
	}
	if on := policy.Devices(p, s.Nodes[1], pod); on != cluster.Device(1) {
		t.Errorf("the share is on %b", on)
	}
}

// A pod that needs much CPU goes where the devices can spare it.
func TestFillKeepsCPUBesideIdleDevices(t *testing.T) {
	much := cluster.Resources{MilliCPU: 16_000, GPU: 1, Pods: 1}
	typical := fragmentation.NewTypical([]fragmentation.Demand{{Requests: policytest.Whole(1), Count: 3}, {Requests: much, Count: 1}})
	s := &cluster.Snapshot{Nodes: []*cluster.Node{policytest.GPUNode(18_000, 4), policytest.GPUNode(100_000, 4)}}
	if got := policytest.Scores(t, gpuFill.New(policy.Setting{Typical: typical}), s, &cluster.Pod{Requests: much}, []int32{0, 1}); got[1] <= got[0] {
		t.Errorf("scores %v", got)
	}
}

// A pod without GPUs goes to a node without GPUs if one has room, to the one that the other policy prefers, and else where GPUs lose least.
func TestFillOnOrdinaryPods(t *testing.T) {
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 2000, Pods: 1}}
	s := &cluster.Snapshot{Nodes: []*cluster.Node{policytest.GPUNode(64_000, 2),
		policytest.GPUNode(64_000, 0, cluster.Resources{MilliCPU: 40_000, Pods: 1}), policytest.GPUNode(64_000, 0), policytest.GPUNode(4000, 2)}}
	typical := fragmentation.NewTypical([]fragmentation.Demand{
		{Requests: pod.Requests, Count: 3}, {Requests: policytest.Share(500), Count: 2}, {Requests: policytest.Whole(1), Count: 2}})
	p, ordinary := gpuFill.New(policy.Setting{Typical: typical}), linear.Tuned("linear")
	got := policytest.Scores(t, p, s, pod, []int32{0, 1, 2, 3})
	want := policytest.Scores(t, ordinary, s, pod, []int32{1, 2})
	if !slices.Equal(got[1:3], want) || max(got[0], got[3]) >= min(got[1], got[2]) {
		t.Errorf("scores %v, want %v for the nodes without GPUs, and less for the others", got, want)
	}
	if got := policytest.Scores(t, p, s, pod, []int32{0, 3}); got[0] <= got[1] {
		t.Errorf("scores %v: the CPU that GPU pods need is taken", got)
	}
}
