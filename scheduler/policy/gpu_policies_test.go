package policy_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
)

func gpuNode(cpu int64, devices int64, running ...cluster.Resources) *cluster.Node {
	n := &cluster.Node{Allocatable: cluster.Resources{MilliCPU: cpu, Memory: 1 << 40, GPU: devices, Pods: 100}, GPUs: make([]int64, devices), Generation: 1}
	for _, r := range running {
		n.Add(r)
	}
	return n
}

func whole(k int64) cluster.Resources { return cluster.Resources{MilliCPU: 1000, GPU: k, Pods: 1} }

func part(milli int64) cluster.Resources {
	return cluster.Resources{MilliCPU: 1000, GPUMilli: milli, Pods: 1}
}

// By hand, from the formulas.
func TestPublishedGPUPolicies(t *testing.T) {
	cpuOnly := cluster.Resources{MilliCPU: 8000, Pods: 1}
	for _, c := range []struct {
		policy policy.Policy
		node   *cluster.Node
		pod    cluster.Resources
		want   float32
	}{
		// 63 of 128 cores and 1 of 8 devices left: 1 - 0.24609 - 0.0625.
		{policy.NewGPUBestFit(), gpuNode(64_000, 2), whole(1), 69},
		{policy.NewGPUBestFit(), gpuNode(64_000, 2), cpuOnly, 65}, // 1 - 0.21875 - 0.125
		// 1 - ½·(64·1/128² + 2·1/8²)
		{policy.NewGPUDotProduct(), gpuNode(64_000, 2), whole(1), 98},
		{policy.NewGPUDotProduct(), gpuNode(128_000, 8), whole(8), 49},
		{policy.NewGPUPacking(), gpuNode(64_000, 2), cpuOnly, 0},
		{policy.NewGPUPacking(), gpuNode(64_000, 4), whole(1), 29},
		{policy.NewGPUPacking(), gpuNode(64_000, 4), part(300), 29},
		{policy.NewGPUPacking(), gpuNode(64_000, 4, part(300)), whole(2), 48},
		{policy.NewGPUPacking(), gpuNode(64_000, 4, part(900)), part(300), 49},
		{policy.NewGPUPacking(), gpuNode(64_000, 4, part(300)), part(300), 93}, // 70% free
		{policy.NewGPUClustering(), gpuNode(64_000, 4, whole(1)), cpuOnly, 0},
		{policy.NewGPUClustering(), gpuNode(64_000, 4, whole(1), cpuOnly), whole(1), 87},         // only such; half full
		{policy.NewGPUClustering(), gpuNode(64_000, 4, whole(1), part(500)), part(500), 62},      // among others; half full
		{policy.NewGPUClustering(), gpuNode(64_000, 4), whole(2), 37},                            // none; half full
		{policy.NewGPUClustering(), gpuNode(64_000, 4, whole(1), part(500)), whole(2), 21},       // only others; 3.5 of 4
		{policy.NewGPUClustering(), gpuNode(64_000, 4, part(200), part(200)), part(600), 75 + 6}, // a quarter
	} {
		s := &cluster.Snapshot{Nodes: []*cluster.Node{c.node}}
		if got := scores(t, c.policy, s, &cluster.Pod{Requests: c.pod}, []int32{0})[0]; got != c.want {
			t.Errorf("%s, %+v on %v of %+v: %v, want %v", c.policy.Name(), c.pod, c.node.GPUs, c.node.Groups, got, c.want)
		}
	}
}

// With half of the pods wanting a whole device, what is left of a shared one is lost to them:
// a share goes where it fragments least, on the right device of the right node.
func TestFGD(t *testing.T) {
	typical := fragmentation.NewTypical([]fragmentation.Demand{{Requests: whole(1), Count: 1}, {Requests: part(500), Count: 1}})
	p := policy.NewFGD(typical)
	idle, shared := gpuNode(64_000, 2), gpuNode(64_000, 2, part(500))
	s := &cluster.Snapshot{Nodes: []*cluster.Node{idle, shared}}
	pod := &cluster.Pod{Requests: part(500)}
	// F of idle: 0, then ½·500; of shared: ½·500, then 0. 100·sigmoid(∓0.25) = 43.8 and 56.2.
	if got := scores(t, p, s, pod, []int32{0, 1}); !slices.Equal(got, []float32{43, 56}) {
		t.Errorf("scores %v", got)
	}
	if on := p.Devices(shared, pod); on != cluster.Device(0) {
		t.Errorf("on devices %b", on)
	}
	if on := p.Devices(idle, &cluster.Pod{Requests: whole(2)}); on != 3 {
		t.Errorf("two devices: %b", on)
	}
	if got := scores(t, policy.NewFGD(nil), s, pod, []int32{0, 1}); !slices.Equal(got, []float32{50, 50}) {
		t.Errorf("an unknown workload: %v", got)
	}
}

// What a policy remembers never shows: while nodes change, a new one scores the same; and the
// devices that it chooses have the room.
func TestGPUPoliciesRememberRight(t *testing.T) {
	typical := fragmentation.NewTypical([]fragmentation.Demand{{Requests: whole(1), Count: 3}, {Requests: part(300), Count: 2}, {Requests: whole(2), Count: 1}, {Requests: cluster.Resources{MilliCPU: 4000, Pods: 1}, Count: 1}})
	for _, h := range policy.GPUHeuristics() {
		t.Run(h.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := &cluster.Snapshot{}
				for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
					s.Nodes = append(s.Nodes, gpuNode(64_000, rapid.Int64Range(0, 4).Draw(t, "devices")))
					s.Nodes[i].Name = fmt.Sprint(i)
				}
				setting := policy.Setting{Typical: typical}
				kept := h.New(setting)
				for range rapid.IntRange(1, 25).Draw(t, "pods") {
					pod := &cluster.Pod{Requests: whole(rapid.Int64Range(0, 3).Draw(t, "gpu"))}
					if pod.Requests.GPU == 0 {
						pod.Requests.GPUMilli = rapid.Int64Range(0, 4).Draw(t, "milli") * 200
					}
					rows := s.Feasible(pod, nil)
					if len(rows) == 0 {
						continue
					}
					got := scores(t, kept, s, pod, rows)
					if want := scores(t, h.New(setting), s, pod, rows); !slices.Equal(got, want) {
						t.Fatalf("%v, a new one %v", got, want)
					}
					n := s.Nodes[rows[rapid.IntRange(0, len(rows)-1).Draw(t, "choice")]]
					on := policy.Devices(kept, n, pod)
					n.AddOn(pod.Requests, on)
					if want := int(pod.Requests.GPU + min(pod.Requests.GPUMilli, 1)); on.Len() != want || slices.Max(append(n.GPUs, 0)) > cluster.DeviceMilli {
						t.Fatalf("%+v is on %b: %v", pod.Requests, on, n.GPUs)
					}
				}
			})
		})
	}
}

// A share lands on every device with room, and on no other.
func TestRandomDevices(t *testing.T) {
	h, err := policy.FindHeuristic("random")
	if err != nil {
		t.Fatal(err)
	}
	p, n := h.New(policy.Setting{Seed: 1}), gpuNode(64_000, 3)
	n.GPUs[1] = 800
	var seen cluster.DeviceSet
	for range 100 {
		seen |= policy.Devices(p, n, &cluster.Pod{Requests: part(300)})
	}
	if seen != 0b101 {
		t.Errorf("devices %b", seen)
	}
}
