package openb_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/workload/trace/openb"
)

// The cluster has two devices. A pod of 800 comes first and must be placed, then three whole ones
// and one of 100. With T after all of them, the limits are 2000 - 200 + 100 and the sum of the
// requests, 3900. With T before the first pod, only the 100 could be allocated.
func TestBoundByHand(t *testing.T) {
	nodes := []openb.Node{{Name: "n", MilliCPU: 64_000, MemoryMiB: 1 << 20, GPUs: 2}}
	pod := func(milli int64) openb.Pod {
		return openb.Pod{MilliCPU: 1000, MemoryMiB: 1000, GPUs: 1, GPUMilli: milli}
	}
	if got := openb.Bound(nodes, []openb.Pod{pod(800), pod(1000), pod(1000), pod(1000), pod(100)}); got != 1900.0/2000 {
		t.Errorf("%v, want 0.95", got)
	}
	if got := openb.Bound(nodes, []openb.Pod{pod(1000), pod(1000), pod(1000), pod(800)}); got != 1 {
		t.Errorf("%v where whole pods come first, want 1", got)
	}
	if got := openb.Bound(nodes, []openb.Pod{pod(400), pod(300)}); got != 1 {
		t.Errorf("%v without large shares, want 1", got)
	}
}

// Random choices stay within the bound if every pod that fits is placed.
func TestBoundHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []openb.Node
		var real []*cluster.Node
		for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
			n := openb.Node{
				Name: fmt.Sprint(i), MilliCPU: rapid.Int64Range(4, 16).Draw(t, "cpu") * 1000, MemoryMiB: 1 << 20,
				GPUs: rapid.Int64Range(1, 4).Draw(t, "gpus"), Model: "T4",
			}
			nodes, real = append(nodes, n), append(real, n.Cluster())
		}
		var arrivals []openb.Pod
		for range rapid.IntRange(1, 40).Draw(t, "pods") {
			p := openb.Pod{MilliCPU: rapid.SampledFrom([]int64{500, 1000, 3000}).Draw(t, "asks"), MemoryMiB: 1000}
			if p.GPUMilli = rapid.SampledFrom([]int64{0, 100, 190, 400, 600, 810, 1000}).Draw(t, "milli"); p.GPUMilli > 0 {
				p.GPUs = 1
			}
			if rapid.IntRange(0, 5).Draw(t, "named") == 0 {
				p.Models = []string{"P100"}
			}
			arrivals = append(arrivals, p)
		}
		var given int64
		for _, p := range arrivals {
			pod := cluster.Pod{Requests: p.Requests(), GPUModels: p.Models}
			s := cluster.Snapshot{Nodes: real}
			rows := s.Feasible(&pod, nil)
			if len(rows) == 0 {
				continue
			}
			n := real[rows[rapid.IntRange(0, len(rows)-1).Draw(t, "node")]]
			on := n.ChooseDevices(pod.Requests)
			if pod.Requests.GPUMilli > 0 {
				var ways []cluster.DeviceSet
				for i, used := range n.GPUs {
					if used+pod.Requests.GPUMilli <= cluster.DeviceMilli {
						ways = append(ways, cluster.Device(i))
					}
				}
				on = rapid.SampledFrom(ways).Draw(t, "device")
			}
			n.AddOn(pod.Requests, on)
			given += pod.Requests.TotalGPUMilli()
		}
		if most := openb.Bound(nodes, arrivals); cluster.Fraction(given, openb.GPUMilli(nodes)) > most+1e-12 {
			t.Fatalf("%d of %d is given, over the bound %v", given, openb.GPUMilli(nodes), most)
		}
	})
}

// On the trace the bound is not trivial: no policy reaches 98%.
func TestBoundOnTheTrace(t *testing.T) {
	dir := fatal.OpenB(t)
	nodes := fatal.Value(openb.LoadNodes(filepath.Join(dir, openb.NodesFile)))(t)
	pods := fatal.Value(openb.LoadPods(openb.PodsFile(dir, "default")))(t)
	arrivals := fatal.Value(openb.Inflate(pods, 1.3, openb.GPUMilli(nodes), 42))(t)
	if b := openb.Bound(nodes, arrivals); b < 0.965 || b > 0.98 {
		t.Errorf("%v", b)
	} else {
		t.Log(b)
	}
}
