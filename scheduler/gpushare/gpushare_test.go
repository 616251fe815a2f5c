package gpushare

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"gnnsched/scheduler/cluster"
)

func requests(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func TestOfPod(t *testing.T) {
	for _, c := range []struct {
		name        string
		annotations map[string]string
		requests    corev1.ResourceList
		want        Request
		err         string
	}{
		{name: "nothing"},
		{name: "whole", requests: requests(Whole, "2"), want: Request{GPU: 2}},
		{name: "whole, annotated", annotations: map[string]string{Count: "2", Milli: "1000"}, requests: requests(Whole, "2"), want: Request{GPU: 2, Indexed: true}},
		{name: "whole by annotations alone", annotations: map[string]string{Count: "4", Milli: "1000"}, want: Request{GPU: 4, Indexed: true}},
		{name: "count alone", annotations: map[string]string{Count: "4"}, want: Request{GPU: 4, Indexed: true}},
		{name: "share by annotations", annotations: map[string]string{Count: "1", Milli: "460"}, want: Request{GPUMilli: 460, Indexed: true}},
		{name: "share alone", annotations: map[string]string{Milli: "460"}, want: Request{GPUMilli: 460, Indexed: true}},
		{name: "share by request", requests: requests(Milli, "460"), want: Request{GPUMilli: 460, Indexed: true}},
		{name: "share by both", annotations: map[string]string{Milli: "460"}, requests: requests(Milli, "460"), want: Request{GPUMilli: 460, Indexed: true}},
		{name: "whole by milli", requests: requests(Milli, "3000"), want: Request{GPU: 3, Indexed: true}},
		{name: "none by annotations", annotations: map[string]string{Count: "0", Milli: "0"}},
		{name: "models", annotations: map[string]string{Model: "A10|T4"}, requests: requests(Whole, "1"), want: Request{GPU: 1, Models: []string{"A10", "T4"}}},
		{name: "not one device", requests: requests(Milli, "1500"), err: "it requests 1500 of alibabacloud.com/gpu-milli"},
		{name: "shares of two", annotations: map[string]string{Count: "2", Milli: "500"}, err: "only a pod on one device may share it"},
		{name: "other count", annotations: map[string]string{Count: "2"}, requests: requests(Whole, "1"), want: Request{GPU: 1}, err: "do not ask for the same"},
		{name: "other share", annotations: map[string]string{Milli: "300"}, requests: requests(Milli, "400"), want: Request{Indexed: true}, err: "do not ask for the same"},
		{name: "whole and share", requests: requests(Whole, "1", Milli, "400"), want: Request{GPU: 1, Indexed: true}, err: "do not ask for the same"},
		{name: "word", annotations: map[string]string{Milli: "half"}, err: `annotation alibabacloud.com/gpu-milli is "half", not a whole number from 0 to 1000`},
		{name: "too much", annotations: map[string]string{Milli: "1001"}, err: "not a whole number from 0 to 1000"},
		{name: "negative", annotations: map[string]string{Count: "-1"}, err: "not a whole number from 0 to 64"},
	} {
		got, err := OfPod(c.annotations, In(c.requests))
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
		if c.err == "" || c.want.GPU > 0 {
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("%s:\n%s", c.name, d)
			}
		}
	}
}

// What Describe writes, OfPod reads.
func TestDescribe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Request{Indexed: true, Models: rapid.SampledFrom([][]string{nil, {"T4"}, {"A10", "T4"}}).Draw(t, "models")}
		if rapid.Bool().Draw(t, "share") {
			want.GPUMilli = int64(rapid.IntRange(1, 999).Draw(t, "milli"))
		} else {
			want.GPU = int64(rapid.IntRange(1, 64).Draw(t, "devices"))
		}
		annotations, list := Describe(cluster.Resources{MilliCPU: 5, GPU: want.GPU, GPUMilli: want.GPUMilli}, want.Models)
		got, err := OfPod(annotations, In(list))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
	if a, l := Describe(cluster.Resources{MilliCPU: 5}, nil); a != nil || l != nil {
		t.Errorf("a pod without GPUs has %v and %v", a, l)
	}
}

func TestDevices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := cluster.DeviceSet(rapid.Uint64().Draw(t, "devices"))
		if got := Devices(map[string]string{Index: FormatDevices(want)}); got != want {
			t.Fatalf("%q became %b, want %b", FormatDevices(want), got, want)
		}
	})
	if got := FormatDevices(cluster.Device(0) | cluster.Device(7) | cluster.Device(2)); got != "0-2-7" {
		t.Errorf("got %q", got)
	}
	for _, s := range []string{"", "a", "0-", "64", "-1", "0-1-x", "0,1"} {
		if got := Devices(map[string]string{Index: s}); got != 0 {
			t.Errorf("%q became %b", s, got)
		}
	}
}

func TestSetDevices(t *testing.T) {
	offered := corev1.ResourceList{}
	Offer(offered, 8)
	for _, c := range []struct {
		name   string
		labels map[string]string
		list   corev1.ResourceList
		gpu    int64
		model  string
		known  bool
	}{
		{name: "none", list: requests("cpu", "4"), labels: map[string]string{Model: "T4"}},
		{name: "all words", list: offered, labels: map[string]string{Model: "T4", product: "Tesla-T4"}, gpu: 8, model: "T4", known: true},
		{name: "device plugin", list: requests(Whole, "2"), labels: map[string]string{product: "Tesla-T4"}, gpu: 2, model: "Tesla-T4", known: true},
		{name: "count", list: requests(Count, "3"), gpu: 3, known: true},
		{name: "milli", list: requests(Milli, "4000"), gpu: 4, known: true},
		{name: "more than there are bits", list: requests(Whole, "65"), gpu: 65},
	} {
		n := cluster.Node{}
		SetDevices(&n, c.labels, In(c.list))
		if n.Allocatable.GPU != c.gpu || n.GPUModel != c.model || n.HasDevices() != c.known || c.known && int64(len(n.GPUs)) != c.gpu {
			t.Errorf("%s: %d devices of %q, %v", c.name, n.Allocatable.GPU, n.GPUModel, n.GPUs)
		}
		if got, want := Indexed(In(c.list)), c.list[Milli] != (resource.Quantity{}) || c.list[Count] != (resource.Quantity{}); got != want {
			t.Errorf("%s: indexed is %v", c.name, got)
		}
	}
}

// Whatever the order in which pods are found on a node, the books are the same, and pods that
// were let on one by one and told their devices overcommit none.
func TestPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devices := rapid.IntRange(1, 8).Draw(t, "devices")
		n := &cluster.Node{Name: "n", Allocatable: cluster.Resources{MilliCPU: 1, Memory: 1, GPU: int64(devices), Pods: 100}, GPUs: make([]int64, devices)}
		empty := *n
		var running []Running
		silent := false // a share does not say on which device it is
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
			p := Running{Requests: r, On: n.Add(r)}
			if rapid.Bool().Draw(t, "silent") {
				p.On = 0 // which a pod need not say; then only the total is sure
			}
			running = append(running, p)
			silent = silent || p.On == 0 && r.GPUMilli > 0
		}
		other := empty
		other.GPUs = make([]int64, devices)
		Place(&other, rapid.Permutation(running).Draw(t, "another order"))
		again := empty
		again.GPUs = make([]int64, devices)
		Place(&again, rapid.Permutation(running).Draw(t, "order"))
		if idle := again.IdleDevices(); idle != n.IdleDevices() && !silent {
			t.Fatalf("%d idle devices became %d", n.IdleDevices(), idle)
		}
		for _, used := range again.GPUs {
			if used > cluster.DeviceMilli && !silent {
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
	n := &cluster.Node{Allocatable: cluster.Resources{GPU: 2}, GPUs: make([]int64, 2)}
	Place(n, []Running{
		{Requests: cluster.Resources{GPUMilli: 300}, On: cluster.Device(5)},                     // no such device
		{Requests: cluster.Resources{GPUMilli: 300}, On: cluster.Device(0) | cluster.Device(1)}, // one would do
		{Requests: cluster.Resources{GPUMilli: 200}, On: cluster.Device(1)},                     // sound
		{Requests: cluster.Resources{MilliCPU: 1}, On: cluster.Device(1)},                       // of no consequence
	})
	if n.GPUs[0] != 0 || n.GPUs[1] != 800 {
		t.Errorf("got %v", n.GPUs)
	}
}

// FuzzOfPod checks that whatever people write on a pod, what is read asks for whole devices or
// a share of one, and that devices survive being written.
func FuzzOfPod(f *testing.F) {
	f.Add("1", "460", "A10|T4", "0", int64(0), int64(460))
	f.Add("2", "1000", "", "0-1", int64(2), int64(0))
	f.Add("", "-1", "|", "64", int64(1), int64(1500))
	f.Fuzz(func(t *testing.T, count, milli, model, index string, whole, request int64) {
		annotations := map[string]string{Count: count, Milli: milli, Model: model, Index: index}
		amounts := map[corev1.ResourceName]int64{Whole: max(whole, 0), Milli: max(request, 0)} // the API server lets no others in
		r, err := OfPod(annotations, func(name corev1.ResourceName) int64 { return amounts[name] })
		if r.GPU < 0 || r.GPUMilli < 0 || r.GPUMilli >= cluster.DeviceMilli || r.GPU > 0 && r.GPUMilli > 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		if err != nil && r.GPU != amounts[Whole] {
			t.Fatalf("with an error it asks for %+v, not for %d", r, amounts[Whole])
		}
		on := Devices(annotations)
		if again := Devices(map[string]string{Index: FormatDevices(on)}); again != on {
			t.Fatalf("%b became %b", on, again)
		}
	})
}
