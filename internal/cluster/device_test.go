package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func gpuNode(used ...int64) *Node {
	n := &Node{Name: "g", GPUModel: "T4", Allocatable: Resources{MilliCPU: 64_000, Memory: 64 << 30, GPU: int64(len(used)), Pods: 110}}
	n.GPUs = append([]int64{}, used...)
	return n
}

func TestFitDevices(t *testing.T) {
	whole := func(k int64) Resources { return Resources{GPU: k, Pods: 1} }
	share := func(m int64) Resources { return Resources{GPUMilli: m, Pods: 1} }
	for _, c := range []struct {
		name   string
		used   []int64
		ask    Resources
		models []string
		want   Reason
	}{
		{"whole on idle ones", []int64{0, 100, 0}, whole(2), nil, Fits},
		{"shared devices are not idle", []int64{0, 100, 0}, whole(3), nil, NoGPU},
		{"share", []int64{1000, 600}, share(400), nil, Fits},
		{"room enough only on two devices together", []int64{700, 700}, share(400), nil, NoDevice},
		{"share of a node without GPUs", nil, share(1), nil, NoDevice},
		{"whole of a node without GPUs", nil, whole(1), nil, NoGPU},
		{"model", []int64{0}, whole(1), []string{"V100", "T4"}, Fits},
		{"wrong model", []int64{0}, share(1), []string{"V100"}, WrongModel},
		{"no GPU asked of a full node", []int64{1000}, Resources{Pods: 1}, nil, Fits},
	} {
		if got := gpuNode(c.used...).Fit(&Pod{Requests: c.ask, GPUModels: c.models}); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	counted := &Node{Allocatable: Resources{GPU: 2, Pods: 9}, Requested: Resources{GPU: 1}}
	for ask, want := range map[Resources]Reason{whole(1): Fits, whole(2): NoGPU, share(1): NoDevice} {
		if got := counted.Fit(&Pod{Requests: ask}); got != want {
			t.Errorf("devices not known, %+v: %q, want %q", ask, got, want)
		}
	}
}

func TestFitsOn(t *testing.T) {
	for _, c := range []struct {
		name string
		ask  Resources
		on   DeviceSet
		want bool
	}{
		{"a share with room", Resources{GPUMilli: 300}, Device(1), true},
		{"a share without room", Resources{GPUMilli: 301}, Device(1), false},
		{"a share on two devices", Resources{GPUMilli: 1}, Device(0) | Device(1), false},
		{"whole devices", Resources{GPU: 2}, Device(0) | Device(2), true},
		{"too few devices", Resources{GPU: 2}, Device(0), false},
		{"a used device", Resources{GPU: 2}, Device(0) | Device(1), false},
		{"no such device", Resources{GPU: 1}, Device(3), false},
		{"no device for a request", Resources{GPU: 1}, 0, false},
		{"no device without a request", Resources{MilliCPU: 1}, 0, true},
		{"a device without a request", Resources{MilliCPU: 1}, Device(0), false},
	} {
		if got := gpuNode(0, 700, 0).FitsOn(c.ask, c.on); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestChooseDevices(t *testing.T) {
	for _, c := range []struct {
		name string
		used []int64
		ask  Resources
		want DeviceSet
	}{
		{"lowest idle", []int64{10, 0, 0, 0}, Resources{GPU: 2}, Device(1) | Device(2)},
		{"least room that fits", []int64{0, 500, 600, 900}, Resources{GPUMilli: 300}, Device(2)},
		{"first of equals", []int64{0, 500, 500}, Resources{GPUMilli: 500}, Device(1)},
		{"overcommitted whole", []int64{10, 0, 5}, Resources{GPU: 2}, Device(1) | Device(2)},
		{"overcommitted share", []int64{900, 800}, Resources{GPUMilli: 300}, Device(1)},
		{"more than there are", []int64{0}, Resources{GPU: 3}, Device(0)},
		{"no GPU", []int64{0}, Resources{MilliCPU: 1}, 0},
		{"devices not known", nil, Resources{GPU: 1}, 0},
	} {
		if got := gpuNode(c.used...).ChooseDevices(c.ask); got != c.want {
			t.Errorf("%s: %b, want %b", c.name, got, c.want)
		}
	}
}

// A pod that fits never overcommits a device, the used amounts add up to the pods' requests, and
// nothing is used after all pods were removed, in any order.
func TestDevicesInvariants(t *testing.T) {
	type placed struct {
		ask Resources
		on  DeviceSet
	}
	rapid.Check(t, func(t *rapid.T) {
		n := gpuNode(make([]int64, rapid.IntRange(1, 8).Draw(t, "devices"))...)
		var running []placed
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			if len(running) > 0 && rapid.IntRange(0, 2).Draw(t, "leaves") == 0 {
				i := rapid.IntRange(0, len(running)-1).Draw(t, "who")
				n.Remove(running[i].ask, running[i].on)
				running = append(running[:i], running[i+1:]...)
			}
			p := Pod{Requests: Resources{MilliCPU: 10, Pods: 1}}
			if rapid.Bool().Draw(t, "share") {
				p.Requests.GPUMilli = rapid.Int64Range(1, 999).Draw(t, "milli")
			} else {
				p.Requests.GPU = rapid.Int64Range(0, 8).Draw(t, "gpu")
			}
			if n.Fit(&p) != Fits {
				continue
			}
			on := n.Add(p.Requests)
			if want := int(p.Requests.GPU + min(p.Requests.GPUMilli, 1)); on.Len() != want {
				t.Fatalf("%+v is on %b", p.Requests, on)
			}
			running = append(running, placed{p.Requests, on})
			var used int64
			for i, u := range n.GPUs {
				if used += u; u < 0 || u > DeviceMilli {
					t.Fatalf("device %d has %d in use", i, u)
				}
			}
			if used != n.Requested.TotalGPUMilli() || n.IdleGPUMilli() != n.Free().TotalGPUMilli() {
				t.Fatalf("%d in use, %d idle, requested %+v", used, n.IdleGPUMilli(), n.Requested)
			}
		}
		for _, r := range running {
			n.Remove(r.ask, r.on)
		}
		if d := cmp.Diff(make([]int64, len(n.GPUs)), n.GPUs); d != "" || n.Requested != (Resources{}) || len(n.Groups) > 0 {
			t.Fatalf("left over: %v %v", n.GPUs, n.Requested)
		}
	})
}

func TestRemoveFromOtherDevicePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	n := gpuNode(0, 0)
	n.AddOn(Resources{GPUMilli: 300}, Device(0))
	n.Remove(Resources{GPUMilli: 300}, Device(1))
}

func TestPlacementDoesNotAllocate(t *testing.T) {
	n, p := gpuNode(0, 300, 0, 0), &Pod{Requests: Resources{MilliCPU: 100, GPUMilli: 500, Pods: 1}, GPUModels: []string{"T4"}}
	n.Remove(p.Requests, n.Add(p.Requests)) // Groups keeps its capacity
	if got := testing.AllocsPerRun(100, func() {
		if n.Fit(p) == Fits {
			n.Remove(p.Requests, n.Add(p.Requests))
		}
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
