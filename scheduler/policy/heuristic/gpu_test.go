package heuristic

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/policytest"
)

// gpu returns the GPU policy of a name.
func gpu(name string) policy.Policy {
	h, err := Find(name)
	if err != nil {
		panic(err)
	}
	return h.New(policy.Setting{})
}

// The scores are computed by hand from the formulas.
func TestPublishedGPUPolicies(t *testing.T) {
	cpuOnly := cluster.Resources{MilliCPU: 8000, Pods: 1}
	for _, c := range []struct {
		policy policy.Policy
		node   *cluster.Node
		pod    cluster.Resources
		want   float32
	}{
		// 63 of 128 cores and 1 of 8 devices left: 1 - 0.24609 - 0.0625.
		{gpu("gpu-best-fit"), policytest.GPUNode(64_000, 2), policytest.Whole(1), 69},
		{gpu("gpu-best-fit"), policytest.GPUNode(64_000, 2), cpuOnly, 65}, // 1 - 0.21875 - 0.125
		// 1 - ½·(64·1/128² + 2·1/8²)
		{gpu("gpu-dot-product"), policytest.GPUNode(64_000, 2), policytest.Whole(1), 98},
		{gpu("gpu-dot-product"), policytest.GPUNode(128_000, 8), policytest.Whole(8), 49},
		{gpu("gpu-packing"), policytest.GPUNode(64_000, 2), cpuOnly, 0},
		{gpu("gpu-packing"), policytest.GPUNode(64_000, 4), policytest.Whole(1), 29},
		{gpu("gpu-packing"), policytest.GPUNode(64_000, 4), policytest.Share(300), 29},
		{gpu("gpu-packing"), policytest.GPUNode(64_000, 4, policytest.Share(300)), policytest.Whole(2), 48},
		{gpu("gpu-packing"), policytest.GPUNode(64_000, 4, policytest.Share(900)), policytest.Share(300), 49},
		{gpu("gpu-packing"), policytest.GPUNode(64_000, 4, policytest.Share(300)), policytest.Share(300), 93}, // 70% free
		{gpu("gpu-clustering"), policytest.GPUNode(64_000, 4, policytest.Whole(1)), cpuOnly, 0},
		// only similar pods; half full
		{gpu("gpu-clustering"), policytest.GPUNode(64_000, 4, policytest.Whole(1), cpuOnly), policytest.Whole(1), 87},
		// similar and other pods; half full
		{gpu("gpu-clustering"), policytest.GPUNode(64_000, 4, policytest.Whole(1), policytest.Share(500)), policytest.Share(500), 62},
		// no pods; half full
		{gpu("gpu-clustering"), policytest.GPUNode(64_000, 4), policytest.Whole(2), 37},
		// only other pods; 3.5 of 4
		{gpu("gpu-clustering"), policytest.GPUNode(64_000, 4, policytest.Whole(1), policytest.Share(500)), policytest.Whole(2), 21},
		// a quarter full
		{gpu("gpu-clustering"), policytest.GPUNode(64_000, 4, policytest.Share(200), policytest.Share(200)), policytest.Share(600), 75 + 6},
	} {
		s := &cluster.Snapshot{Nodes: []*cluster.Node{c.node}}
		if got := policytest.Scores(t, c.policy, s, &cluster.Pod{Requests: c.pod}, []int32{0})[0]; got != c.want {
			t.Errorf("%s, %+v on %v of %+v: %v, want %v", c.policy.Name(), c.pod, c.node.GPUs, c.node.Groups, got, c.want)
		}
	}
}

// Half of the typical pods need a whole device, so they cannot use the rest of a shared one. A share
// goes to the device, on the node, where it fragments least.
func TestFGD(t *testing.T) {
	typical := fragmentation.NewTypical([]fragmentation.Demand{{Requests: policytest.Whole(1), Count: 1},
		{Requests: policytest.Share(500), Count: 1}})
	p := NewFGD(typical)
	idle, shared := policytest.GPUNode(64_000, 2), policytest.GPUNode(64_000, 2, policytest.Share(500))
	s := &cluster.Snapshot{Nodes: []*cluster.Node{idle, shared}}
	pod := &cluster.Pod{Requests: policytest.Share(500)}
	// F of idle: 0, then ½·500; of shared: ½·500, then 0. 100·sigmoid(∓0.25) = 43.8 and 56.2.
	if got := policytest.Scores(t, p, s, pod, []int32{0, 1}); !slices.Equal(got, []float32{43, 56}) {
		t.Errorf("scores %v", got)
	}
	if on := p.Devices(shared, pod); on != cluster.Device(0) {
		t.Errorf("on devices %b", on)
	}
	if on := p.Devices(idle, &cluster.Pod{Requests: policytest.Whole(2)}); on != 3 {
		t.Errorf("two devices: %b", on)
	}
	if got := policytest.Scores(t, NewFGD(nil), s, pod, []int32{0, 1}); !slices.Equal(got, []float32{50, 50}) {
		t.Errorf("an unknown workload: %v", got)
	}
}

// Caches never show: while nodes change, a policy scores like a new one, and the devices that it
// chooses have room.
func TestGPUPoliciesRememberRight(t *testing.T) {
	typical := fragmentation.NewTypical([]fragmentation.Demand{{Requests: policytest.Whole(1), Count: 3},
		{Requests: policytest.Share(300), Count: 2}, {Requests: policytest.Whole(2), Count: 1},
		{Requests: cluster.Resources{MilliCPU: 4000, Pods: 1}, Count: 1}})
	for _, h := range forGPUs() {
		t.Run(h.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := &cluster.Snapshot{}
				for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
					s.Nodes = append(s.Nodes, policytest.GPUNode(64_000, rapid.Int64Range(0, 4).Draw(t, "devices")))
					s.Nodes[i].Name = fmt.Sprint(i)
				}
				setting := policy.Setting{Typical: typical}
				kept := h.New(setting)
				for range rapid.IntRange(1, 25).Draw(t, "pods") {
					pod := &cluster.Pod{Requests: policytest.Whole(rapid.Int64Range(0, 3).Draw(t, "gpu"))}
					if pod.Requests.GPU == 0 {
						pod.Requests.GPUMilli = rapid.Int64Range(0, 4).Draw(t, "milli") * 200
					}
					rows := s.Feasible(pod, nil)
					if len(rows) == 0 {
						continue
					}
					got := policytest.Scores(t, kept, s, pod, rows)
					if want := policytest.Scores(t, h.New(setting), s, pod, rows); !slices.Equal(got, want) {
						t.Fatalf("%v, a new one %v", got, want)
					}
					n := s.Nodes[rows[rapid.IntRange(0, len(rows)-1).Draw(t, "choice")]]
					on := policy.Devices(kept, n, pod)
					n.AddOn(pod.Requests, on)
					if want := int(pod.Requests.GPU + min(pod.Requests.GPUMilli, 1)); on.Len() != want ||
						slices.Max(append(n.GPUs, 0)) > cluster.DeviceMilli {
						t.Fatalf("%+v is on %b: %v", pod.Requests, on, n.GPUs)
					}
				}
			})
		})
	}
}

// The random policy puts a share on any device with room, and on no other.
func TestRandomDevices(t *testing.T) {
	h, err := Find("random")
	if err != nil {
		t.Fatal(err)
	}
	p, n := h.New(policy.Setting{Seed: 1}), policytest.GPUNode(64_000, 3)
	n.GPUs[1] = 800
	var seen cluster.DeviceSet
	for range 100 {
		seen |= policy.Devices(p, n, &cluster.Pod{Requests: policytest.Share(300)})
	}
	if seen != 0b101 {
		t.Errorf("devices %b", seen)
	}
}
