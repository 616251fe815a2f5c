package kube

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
)

// Place gives the same result for every order of the pods. Pods that fitted one after the other, and
// whose annotations name their devices, overcommit no device.
func TestPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devices := rapid.IntRange(1, 8).Draw(t, "devices")
		n := &cluster.Node{
			Name: "n", Allocatable: cluster.Resources{MilliCPU: 1, Memory: 1, GPU: int64(devices), Pods: 100}, GPUs: make([]int64, devices),
		}
		empty := *n
		var running []RunningPod
		unknown := false // the device of some share is unknown
		for range rapid.IntRange(0, 20).Draw(t, "pods") {
			r := cluster.Resources{Pods: 1}
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				r.GPU = int64(rapid.IntRange(1, 3).Draw(t, "whole"))
			case 1:
				r.GPUMilli = int64(rapid.IntRange(1, 9).Draw(t, "tenths")) * 100
			}
			if n.Fit(&cluster.Pod{Requests: r}) != cluster.Fits {
				continue
			}
			p := RunningPod{Requests: r, Devices: n.Add(r)}
			if rapid.Bool().Draw(t, "no annotation") {
				p.Devices = 0
			}
			running = append(running, p)
			unknown = unknown || p.Devices == 0 && r.GPUMilli > 0
		}
		other := empty
		other.GPUs = make([]int64, devices)
		Place(&other, rapid.Permutation(running).Draw(t, "another order"))
		again := empty
		again.GPUs = make([]int64, devices)
		Place(&again, rapid.Permutation(running).Draw(t, "order"))
		if idle := again.IdleDevices(); idle != n.IdleDevices() && !unknown {
			t.Fatalf("%d idle devices became %d", n.IdleDevices(), idle)
		}
		for _, used := range again.GPUs {
			if used > cluster.DeviceMilli && !unknown {
				t.Fatalf("overcommitted: %v, was %v", again.GPUs, n.GPUs)
			}
		}
		if !slices.Equal(again.GPUs, other.GPUs) {
			t.Fatalf("one order gives %v, another %v", again.GPUs, other.GPUs)
		}
		if again.Requested != n.Requested {
			t.Fatalf("%v became %v", n.Requested, again.Requested)
		}
	})
}

// An annotation counts only if it names as many devices as the pod requests, with room for it.
func TestPlaceChecksTheAnnotation(t *testing.T) {
	share := func(milli int64, on ...int) RunningPod { return running(cluster.Resources{GPUMilli: milli}, on...) }
	whole := func(devices int64, on ...int) RunningPod { return running(cluster.Resources{GPU: devices}, on...) }
	for _, c := range []struct {
		name string
		pods []RunningPod
		want []int64
	}{
		{"no such device", []RunningPod{share(300, 5)}, []int64{300, 0, 0}},
		{"two for a share", []RunningPod{share(300, 0, 1)}, []int64{300, 0, 0}},
		{"one for a request of two", []RunningPod{whole(2, 2)}, []int64{1000, 1000, 0}},
		{"no GPU", []RunningPod{running(cluster.Resources{MilliCPU: 1}, 1)}, []int64{0, 0, 0}},
		{"together with a valid one", []RunningPod{share(300, 5), share(300, 0, 1), share(200, 1)}, []int64{0, 800, 0}},
		{"whole, twice", []RunningPod{whole(1, 0), whole(1, 0)}, []int64{1000, 1000, 0}},
		{"whole, three times", []RunningPod{whole(1, 2), whole(1, 2), whole(1, 2)}, []int64{1000, 1000, 1000}},
		{"shares, beyond one device", []RunningPod{share(600, 1), share(600, 1)}, []int64{600, 600, 0}},
		{"shares that go together", []RunningPod{share(600, 1), share(400, 1)}, []int64{0, 1000, 0}},
		{"a share on a whole one", []RunningPod{share(1, 0), whole(1, 0)}, []int64{1000, 1, 0}},
		{"overlapping", []RunningPod{whole(2, 1, 2), whole(1, 2)}, []int64{1000, 1000, 1000}},
		{"more than there is", []RunningPod{whole(3, 0, 1, 2), whole(1, 0)}, []int64{2000, 1000, 1000}},
	} {
		for range 2 { // in both orders
			n := &cluster.Node{Allocatable: cluster.Resources{GPU: 3}, GPUs: make([]int64, 3)}
			Place(n, slices.Clone(c.pods))
			if !slices.Equal(n.GPUs, c.want) {
				t.Errorf("%s: got %v, want %v", c.name, n.GPUs, c.want)
			}
			slices.Reverse(c.pods)
		}
	}
}

// running returns a pod whose annotation names the given devices.
func running(r cluster.Resources, on ...int) (p RunningPod) {
	p.Requests = r
	for _, i := range on {
		p.Devices |= cluster.Device(i)
	}
	return p
}

// For any annotations, no device is overcommitted while there are enough of them, and the order of the pods does not matter.
func TestPlaceWithRandomAnnotations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devices := rapid.IntRange(1, 8).Draw(t, "devices")
		var pods []RunningPod
		var total int64
		for range rapid.IntRange(0, devices).Draw(t, "pods") {
			p := running(cluster.Resources{GPU: 1})
			p.Devices = cluster.DeviceSet(rapid.Uint64Range(0, 1<<devices).Draw(t, "on"))
			if rapid.Bool().Draw(t, "share") {
				p.Requests = cluster.Resources{GPUMilli: int64(rapid.IntRange(1, 999).Draw(t, "milli"))}
			}
			total += p.Requests.TotalGPUMilli()
			pods = append(pods, p)
		}
		var results [][]int64
		for range 2 {
			n := &cluster.Node{Allocatable: cluster.Resources{GPU: int64(devices)}, GPUs: make([]int64, devices)}
			Place(n, rapid.Permutation(pods).Draw(t, "order"))
			results = append(results, n.GPUs)
			used := each.Sum(n.GPUs, func(u int64) int64 { return u })
			if used != total || slices.Max(n.GPUs) > cluster.DeviceMilli {
				t.Fatalf("%+v gives %v", pods, n.GPUs)
			}
		}
		if !slices.Equal(results[0], results[1]) {
			t.Fatalf("one order gives %v, another %v", results[0], results[1])
		}
	})
}

func TestWorkload(t *testing.T) {
	yes, hash := true, map[string]string{"pod-template-hash": "7f9"}
	for _, c := range []struct {
		kind, name string
		labels     map[string]string
		want       string
	}{
		{"", "", hash, ""},
		{"ReplicaSet", "web-7f9", hash, "Deployment/web"},
		{"ReplicaSet", "web-7f9", nil, "ReplicaSet/web-7f9"},
		{"Job", "report-29012345", nil, "CronJob/report"},
		{"Job", "train-2", nil, "Job/train-2"},
		{"Job", "-29012345", nil, "Job/-29012345"},
		{"StatefulSet", "db", nil, "StatefulSet/db"},
	} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: c.labels}}
		if c.kind != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: c.kind, Name: c.name, Controller: &yes}}
		}
		if got := Workload(p); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.kind, c.name, got, c.want)
		}
	}
	for annotated, want := range map[string]string{"Deployment/web": "Deployment/web", "web": "", "Deployment/": "", "<b>/web": "",
		"Deployment/<script>": ""} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{WorkloadAnnotation: annotated}}}
		if got := Workload(p); got != want {
			t.Errorf("annotated %q: %q, want %q", annotated, got, want)
		}
	}
}

func TestDevices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := cluster.DeviceSet(rapid.Uint64().Draw(t, "devices"))
		if got := Devices(map[string]string{GPUIndexAnnotation: FormatDevices(want)}); got != want {
			t.Fatalf("%q became %b, want %b", FormatDevices(want), got, want)
		}
	})
	if got := FormatDevices(cluster.Device(0) | cluster.Device(7) | cluster.Device(2)); got != "0-2-7" {
		t.Errorf("got %q", got)
	}
	for _, s := range []string{"", "a", "0-", "64", "-1", "0-1-x", "0,1"} {
		if got := Devices(map[string]string{GPUIndexAnnotation: s}); got != 0 {
			t.Errorf("%q became %b", s, got)
		}
	}
}
