package encode

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
)

// typical returns a workload in which half of the pods request no GPU, a quarter half a device, an
// eighth one device of the model T4 and an eighth two devices.
func typical() *fragmentation.Typical {
	return fragmentation.NewTypical([]fragmentation.Demand{
		{Requests: cluster.Resources{MilliCPU: 2000, Pods: 1}, Count: 4},
		{Requests: cluster.Resources{MilliCPU: 4000, GPUMilli: 500, Pods: 1}, Count: 2},
		{Requests: cluster.Resources{MilliCPU: 8000, GPU: 1, Pods: 1}, Models: []string{"T4"}, Count: 1},
		{Requests: cluster.Resources{MilliCPU: 16000, GPU: 2, Pods: 1}, Count: 1},
	})
}

func gpuNode(model string, used ...int64) *cluster.Node {
	n := &cluster.Node{
		Version: cluster.NextVersion(), Name: "n", GPUModel: model,
		Allocatable: cluster.Resources{MilliCPU: 32_000, Memory: 100 << 30, GPU: int64(len(used)), Pods: 100}, GPUs: used,
	}
	return n
}

// named returns the feature of the given name.
func named(t *testing.T, features []feature.Feature, x []float32, name string) float64 {
	t.Helper()
	for i, f := range features {
		if f.Name == name {
			return float64(x[i])
		}
	}
	t.Fatalf("no feature %s", name)
	return 0
}

func TestGPUNode(t *testing.T) {
	e := NewStars(feature.DefaultGPU(), typical())
	// (2·4000 + 8000 + 16000) / (2·0.5 + 1 + 2) thousandths of a core by device.
	if e.workload.Unit != 8000 {
		t.Fatalf("unit %v", e.workload.Unit)
	}
	n := gpuNode("P100", 0, 600, 0)
	n.Requested = cluster.Resources{MilliCPU: 12_000, Memory: 25 << 30, Pods: 1, GPUMilli: 600}
	var g graph.GPUNode
	e.Node(&g, n, cluster.Resources{MilliCPU: 4000, Memory: 25 << 30, GPUMilli: 500, Pods: 1}, cluster.Device(2))
	if d := cmp.Diff([]float32{1, 0.4, 0.5}, g.Free, cmpopts.EquateApprox(0, 1e-6)); d != "" {
		t.Error(d)
	}
	for name, want := range map[string]float64{
		"cpu": 0.25, "memory": 0.5, "idle": 1.9 / 8, "whole": 1.0 / 8, "shared": 2.0 / 8, "cpu_per": 2 / 1.9 / 4,
		"cpu_scarce": 1, "cpu_some": 1, "devices": 3.0 / 8, "cpu_each": 4.0 / 3 / 4,
		"hosts": 0.75, "hosts_share": 1, "hosts_cpu": 1, "model": 0.75,
		// Without GPU: all of 1900, half of the time. Shares: 400 are too small, a quarter. The
		// T4's and the two devices': all, an eighth each.
		"fragmented": (0.5*1900 + 0.25*400 + 0.25*1900) / 4000,
	} {
		if got := named(t, feature.List(feature.GPUBase.Node), g.X, name); math.Abs(got-want) > 1e-6 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if len(g.X) != feature.DefaultGPU().Widths.Node {
		t.Errorf("%d features", len(g.X))
	}
}

// For any workload, the features stay in the range of the training.
func TestGPUNodeOfOddWorkloads(t *testing.T) {
	n := gpuNode("T4", 0, 0)
	for name, w := range map[string][]fragmentation.Demand{
		"unknown": nil,
		"hardly any GPU": {{Requests: cluster.Resources{MilliCPU: 1000, Pods: 1}, Count: 99},
			{Requests: cluster.Resources{MilliCPU: 1000, GPU: 1, Pods: 1}, Count: 1}},
		"GPU without CPU":  {{Requests: cluster.Resources{GPU: 1, Pods: 1}, Count: 1}},
		"hardly any CPU":   {{Requests: cluster.Resources{MilliCPU: 1, GPU: 1, Pods: 1}, Count: 1}},
		"nobody shares":    {{Requests: cluster.Resources{MilliCPU: 8000, GPU: 1, Pods: 1}, Count: 1}},
		"only names other": {{Requests: cluster.Resources{MilliCPU: 8000, GPU: 1, Pods: 1}, Models: []string{"P100"}, Count: 1}},
	} {
		var g graph.GPUNode
		NewStars(feature.DefaultGPU(), fragmentation.NewTypical(w)).Node(&g, n, cluster.Resources{}, 0)
		for i, x := range g.X {
			if x < 0 || x > 8 || x != x {
				t.Errorf("%s: %s is %v", name, feature.List(feature.GPUBase.Node)[i].Name, x)
			}
		}
		if x := named(t, feature.List(feature.GPUBase.Node), g.X, "hosts_cpu"); x != 1 {
			t.Errorf("%s: hosts_cpu is %v on an empty node", name, x)
		}
	}
}

func TestGPUClusterFeatures(t *testing.T) {
	c := NewStars(feature.DefaultGPU(), typical())
	n := gpuNode("T4", 0, 600, 1000, 0)
	n.Requested = cluster.Resources{MilliCPU: 8000, Memory: 50 << 30}
	away := gpuNode("T4", 0)
	away.Unschedulable = true
	x := c.Features([]*cluster.Node{n, away})
	for name, want := range map[string]float64{
		"whole": 0.5, "whole_few": 1, "whole_fewer": 1, "shared": 0.4 / 4 * 10, "cpu": 0.75, "memory": 0.5,
		"pods_cpu": 0.5, "pods_share": 0.25, "pods_multi": 0.25, "pods_model": 0.125, "share_size": 0.5, "cpu_per_gpu": 1,
	} {
		if got := named(t, feature.List(feature.GPUBase.Cluster), x, name); math.Abs(got-want) > 1e-6 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if len(x) != feature.DefaultGPU().Widths.Cluster {
		t.Errorf("%d features", len(x))
	}
}

// After any changes of nodes, the features equal a new encoder's, also for an unknown workload.
func TestStarsFollowTheNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workload := typical()
		if rapid.Bool().Draw(t, "unknown workload") {
			workload = nil
		}
		c := NewStars(feature.DefaultGPU(), workload)
		var nodes []*cluster.Node
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				nodes = append(nodes, gpuNode("T4", make([]int64, rapid.IntRange(0, 4).Draw(t, "devices"))...))
			case 1:
				if len(nodes) > 0 {
					nodes = append([]*cluster.Node(nil), nodes[1:]...)
				}
			default:
				for _, n := range nodes {
					pod := cluster.Pod{Requests: cluster.Resources{
						MilliCPU: 1000, GPUMilli: rapid.SampledFrom([]int64{0, 300, 700}).Draw(t, "share"), Pods: 1,
					}}
					if n.Fit(&pod) == cluster.Fits {
						n.Add(pod.Requests)
					}
				}
			}
			got := append([]float32(nil), c.Features(nodes)...)
			if d := cmp.Diff(NewStars(feature.DefaultGPU(), workload).Features(nodes), got); d != "" {
				t.Fatal(d)
			}
		}
	})
}
