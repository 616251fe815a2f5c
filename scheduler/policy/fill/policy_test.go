package fill_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/fill"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/policytest"
)

var demand = []fragmentation.Demand{
	{Requests: cluster.Resources{MilliCPU: 2000, Pods: 1}, Count: 3},
	{Requests: policytest.Share(500), Count: 2}, {Requests: policytest.Share(300), Count: 1}, {Requests: policytest.Whole(1), Count: 2},
	{Requests: policytest.Whole(2), Count: 1},
}

func newPolicy(typical *fragmentation.Typical) *fill.Policy {
	return fill.New("gpu-fill", typical, linear.Tuned("linear"))
}

// Over many decisions the policy, with what it keeps, scores like a new one and chooses the same devices.
func TestKeepsNothingStale(t *testing.T) {
	typical := fragmentation.NewTypical(demand)
	rapid.Check(t, func(t *rapid.T) {
		s := &cluster.Snapshot{}
		for range rapid.IntRange(1, 6).Draw(t, "nodes") {
			s.Nodes = append(s.Nodes, policytest.GPUNode(rapid.SampledFrom([]int64{8000, 64_000}).Draw(t, "cpu"),
				rapid.Int64Range(0, 4).Draw(t, "devices")))
		}
		kept := newPolicy(typical)
		for range 25 {
			pod := &cluster.Pod{Requests: rapid.SampledFrom(demand).Draw(t, "pod").Requests}
			rows := s.Feasible(pod, nil)
			if len(rows) == 0 {
				continue
			}
			fresh := newPolicy(typical)
			got := slices.Clone(policytest.Scores(t, kept, s, pod, rows))
			if want := policytest.Scores(t, fresh, s, pod, rows); !slices.Equal(got, want) {
				t.Fatalf("%+v: %v, a new policy says %v", pod.Requests, got, want)
			}
			n := s.Nodes[rows[rapid.IntRange(0, len(rows)-1).Draw(t, "choice")]]
			on := kept.Devices(n, pod)
			if want := fresh.Devices(n, pod); on != want {
				t.Fatalf("node %v, %+v: devices %b, a new policy says %b", n.GPUs, pod.Requests, on, want)
			}
			n.AddOn(pod.Requests, on)
		}
	})
}

// The scores do not depend on the order of the nodes.
func TestEquivariant(t *testing.T) {
	s := &cluster.Snapshot{Nodes: []*cluster.Node{policytest.GPUNode(64_000, 4, policytest.Share(300)),
		policytest.GPUNode(64_000, 2, policytest.Whole(1)), policytest.GPUNode(8000, 2),
		policytest.GPUNode(64_000, 4, policytest.Share(500), policytest.Share(300))}}
	pod, typical, rows := &cluster.Pod{Requests: policytest.Share(300)}, fragmentation.NewTypical(demand), []int32{0, 1, 2, 3}
	before := slices.Clone(policytest.Scores(t, newPolicy(typical), s, pod, rows))
	slices.Reverse(s.Nodes)
	after := policytest.Scores(t, newPolicy(typical), s, pod, rows)
	slices.Reverse(after)
	if !slices.Equal(before, after) {
		t.Errorf("%v in reverse order is %v", before, after)
	}
}

// A share of 300 goes beside one of 700, where nothing stays idle, and not beside one of 500, where another of 500 would fit.
func TestShareGoesWhereLeastStaysIdle(t *testing.T) {
	typical := fragmentation.NewTypical([]fragmentation.Demand{
		{Requests: policytest.Share(500), Count: 2}, {Requests: policytest.Share(300), Count: 1}, {Requests: policytest.Share(700), Count: 1}})
	s := &cluster.Snapshot{Nodes: []*cluster.Node{policytest.GPUNode(64_000, 1, policytest.Share(500)),
		policytest.GPUNode(64_000, 2, policytest.Share(500), policytest.Share(700))}}
	pod := &cluster.Pod{Requests: policytest.Share(300)}
	p := newPolicy(typical)
	if got := policytest.Scores(t, p, s, pod, []int32{0, 1}); policy.Best(got) != 1 {
		t.Errorf("scores %v", got)
	}
	if on := p.Devices(s.Nodes[1], pod); on != cluster.Device(1) {
		t.Errorf("the share is on %b", on)
	}
}

// A pod that needs much CPU goes where the devices can spare it.
func TestCPUIsKeptBesideIdleDevices(t *testing.T) {
	much := cluster.Resources{MilliCPU: 16_000, GPU: 1, Pods: 1}
	typical := fragmentation.NewTypical([]fragmentation.Demand{{Requests: policytest.Whole(1), Count: 3}, {Requests: much, Count: 1}})
	s := &cluster.Snapshot{Nodes: []*cluster.Node{policytest.GPUNode(18_000, 4), policytest.GPUNode(100_000, 4)}}
	if got := policytest.Scores(t, newPolicy(typical), s, &cluster.Pod{Requests: much}, []int32{0, 1}); got[1] <= got[0] {
		t.Errorf("scores %v", got)
	}
}

// Before the first call of Score the devices are the default ones.
func TestDevicesBeforeScore(t *testing.T) {
	n, pod := policytest.GPUNode(64_000, 3, policytest.Share(300), policytest.Share(600)), &cluster.Pod{Requests: policytest.Share(300)}
	if got, want := newPolicy(fragmentation.NewTypical(demand)).Devices(n, pod), n.ChooseDevices(pod.Requests); got != want {
		t.Errorf("%b, want %b", got, want)
	}
}

// A pod without GPUs goes to a node without GPUs if one has room, to the one that the other policy prefers, and else where GPUs lose least.
func TestOrdinaryPods(t *testing.T) {
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 2000, Pods: 1}}
	s := &cluster.Snapshot{Nodes: []*cluster.Node{policytest.GPUNode(64_000, 2),
		policytest.GPUNode(64_000, 0, cluster.Resources{MilliCPU: 40_000, Pods: 1}), policytest.GPUNode(64_000, 0), policytest.GPUNode(4000, 2)}}
	p, ordinary := newPolicy(fragmentation.NewTypical(demand)), linear.Tuned("linear")
	got := policytest.Scores(t, p, s, pod, []int32{0, 1, 2, 3})
	want := policytest.Scores(t, ordinary, s, pod, []int32{1, 2})
	if !slices.Equal(got[1:3], want) || max(got[0], got[3]) >= min(got[1], got[2]) {
		t.Errorf("scores %v, want %v for the nodes without GPUs, and less for the others", got, want)
	}
	if got := policytest.Scores(t, p, s, pod, []int32{0, 3}); got[0] <= got[1] {
		t.Errorf("scores %v: the CPU that GPU pods need is taken", got)
	}
}

// Another pod may take a device between the filter and the score. The policy does not panic then, nor where no pods are known.
func TestTakenDevice(t *testing.T) {
	s := &cluster.Snapshot{Nodes: []*cluster.Node{policytest.GPUNode(64_000, 1, policytest.Share(900))}}
	policytest.Scores(t, newPolicy(nil), s, &cluster.Pod{Requests: policytest.Share(300)}, []int32{0})
}
