package run

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/policytest"
)

var pairDemand = []fragmentation.Demand{
	{Requests: cluster.Resources{MilliCPU: 2000, Pods: 1}, Count: 3},
	{Requests: policytest.Share(500), Count: 2}, {Requests: policytest.Share(300), Count: 1}, {Requests: policytest.Whole(1), Count: 2},
	{Requests: policytest.Whole(2), Count: 1},
}

// A pair chooses what its networks would: the devices' network for a GPU pod, and for any other pod the nodes' network among the
// candidates where the devices' network says that next to nothing is taken, unless all of these have GPUs.
func TestPair(t *testing.T) {
	typical := fragmentation.NewTypical(pairDemand)
	rapid.Check(t, func(t *rapid.T) {
		s := &cluster.Snapshot{}
		for range rapid.IntRange(1, 6).Draw(t, "nodes") {
			s.Nodes = append(s.Nodes, policytest.GPUNode(rapid.SampledFrom([]int64{8000, 64_000}).Draw(t, "cpu"),
				rapid.Int64Range(0, 4).Draw(t, "devices")))
		}
		pod := &cluster.Pod{Requests: rapid.SampledFrom(pairDemand).Draw(t, "pod").Requests}
		rows := s.Feasible(pod, nil)
		if len(rows) == 0 {
			return
		}
		p, err := newPair("gpu-gnn+rule", typical)
		fatal.If(t, err)
		got := policytest.Scores(t, p, s, pod, rows)
		takes := policytest.Scores(t, p.devices, s, pod, rows)
		if slices.Max(got) != 0 {
			t.Fatalf("the best of %v is not 0", got)
		}
		if pod.Requests.TotalGPUMilli() > 0 {
			if policy.Best(got) != policy.Best(takes) {
				t.Fatalf("%v, the devices' network has %v", got, takes)
			}
			return
		}
		most := min(slices.Max(takes), 0)
		best := s.Nodes[rows[policy.Best(got)]]
		if taken := min(takes[policy.Best(got)], 0); taken < most-pairTolerance {
			t.Fatalf("it takes %v, the least is %v", taken, most)
		}
		ordinary := slices.ContainsFunc(rows, func(row int32) bool { return s.Nodes[row].Allocatable.GPU == 0 })
		if !ordinary {
			return
		}
		for i, row := range rows {
			if min(takes[i], 0) < most-pairTolerance && got[i] > -farthest/2 {
				t.Fatalf("node %d takes %v and scores %v, beside %v for %s", row, takes[i], got[i], slices.Max(got), best.Name)
			}
		}
	})
}

func TestPairsAreTeachers(t *testing.T) {
	if p, err := TeacherByName("gpu-gnn+rule", nil); err != nil || p.Name() != "gpu-gnn+rule" {
		t.Error(p, err)
	}
	for _, name := range []string{"rule+gpu-gnn", "gpu-gnn+nobody", "gpu-gnn", "gpu-gnn+gnn-traffic", "gpu-gnn+mixed"} {
		if _, err := TeacherByName(name, nil); err == nil {
			t.Errorf("%s is a teacher", name)
		}
	}
}
