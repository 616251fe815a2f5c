package kube

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
)

func requests(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

// numbered is so many models.
func numbered(models int) string {
	var out []string
	for i := range models {
		out = append(out, strconv.Itoa(i))
	}
	return strings.Join(out, "|")
}

func TestGPURequestOf(t *testing.T) {
	for _, c := range []struct {
		name        string
		annotations map[string]string
		requests    corev1.ResourceList
		want        GPURequest
		err         string
	}{
		{name: "nothing"},
		{name: "whole", requests: requests(GPUResource, "2"), want: GPURequest{GPU: 2}},
		{name: "whole, annotated", annotations: map[string]string{GPUCountAnnotation: "2", GPUMilliAnnotation: "1000"}, requests: requests(GPUResource, "2"), want: GPURequest{GPU: 2, WantsIndex: true}},
		{name: "whole by annotations alone", annotations: map[string]string{GPUCountAnnotation: "4", GPUMilliAnnotation: "1000"}, want: GPURequest{GPU: 4, WantsIndex: true}},
		{name: "count alone", annotations: map[string]string{GPUCountAnnotation: "4"}, want: GPURequest{GPU: 4, WantsIndex: true}},
		{name: "share by annotations", annotations: map[string]string{GPUCountAnnotation: "1", GPUMilliAnnotation: "460"}, want: GPURequest{GPUMilli: 460, WantsIndex: true}},
		{name: "share alone", annotations: map[string]string{GPUMilliAnnotation: "460"}, want: GPURequest{GPUMilli: 460, WantsIndex: true}},
		{name: "share by request", requests: requests(GPUMilliResource, "460"), want: GPURequest{GPUMilli: 460, WantsIndex: true}},
		{name: "share by both", annotations: map[string]string{GPUMilliAnnotation: "460"}, requests: requests(GPUMilliResource, "460"), want: GPURequest{GPUMilli: 460, WantsIndex: true}},
		{name: "whole by milli", requests: requests(GPUMilliResource, "3000"), want: GPURequest{GPU: 3, WantsIndex: true}},
		{name: "none by annotations", annotations: map[string]string{GPUCountAnnotation: "0", GPUMilliAnnotation: "0"}},
		{name: "models", annotations: map[string]string{GPUModelAnnotation: "A10|T4"}, requests: requests(GPUResource, "1"), want: GPURequest{GPU: 1, Models: []string{"A10", "T4"}}},
		{name: "models of a pod without GPU", annotations: map[string]string{GPUModelAnnotation: "A10|T4"}},
		{name: "wrong models of a pod without GPU", annotations: map[string]string{GPUModelAnnotation: "|"}},
		{name: "models, untidy", annotations: map[string]string{GPUMilliAnnotation: "5", GPUModelAnnotation: " T4 |A10|T4"}, want: GPURequest{GPUMilli: 5, Models: []string{"T4", "A10"}, WantsIndex: true}},
		{name: "as many models as there may be", annotations: map[string]string{GPUModelAnnotation: numbered(32)}, requests: requests(GPUResource, "1"), want: GPURequest{GPU: 1, Models: strings.Split(numbered(32), "|")}},
		{name: "too many models", annotations: map[string]string{GPUMilliAnnotation: "5", GPUModelAnnotation: numbered(33)}, want: GPURequest{GPUMilli: 5, WantsIndex: true}, err: "names more than 32 models"},
		{name: "one model, too often", annotations: map[string]string{GPUModelAnnotation: strings.Repeat("T4|", 40_000)}, requests: requests(GPUResource, "1"), want: GPURequest{GPU: 1}, err: "names more than 32 models"},
		{name: "a model without a name", annotations: map[string]string{GPUModelAnnotation: "A10| |T4"}, requests: requests(GPUMilliResource, "5"), want: GPURequest{GPUMilli: 5, WantsIndex: true}, err: "names no model"},
		{name: "a model with an endless name", annotations: map[string]string{GPUModelAnnotation: "A10|" + strings.Repeat("x", 64)}, requests: requests(GPUResource, "1"), want: GPURequest{GPU: 1}, err: "64 characters"},
		{name: "devices that it chose itself", annotations: map[string]string{GPUIndexAnnotation: "0"}, requests: requests(GPUResource, "1"), want: GPURequest{GPU: 1, WantsIndex: true}},
		{name: "not one device", requests: requests(GPUMilliResource, "1500"), want: GPURequest{GPU: 2, WantsIndex: true}, err: "it requests 1500 of alibabacloud.com/gpu-milli"},
		{name: "shares of two", annotations: map[string]string{GPUCountAnnotation: "2", GPUMilliAnnotation: "500"}, err: "only a pod on one device may share it"},
		{name: "other count", annotations: map[string]string{GPUCountAnnotation: "2"}, requests: requests(GPUResource, "1"), want: GPURequest{GPU: 1}, err: "do not ask for the same"},
		{name: "other share", annotations: map[string]string{GPUMilliAnnotation: "300"}, requests: requests(GPUMilliResource, "400"), want: GPURequest{GPUMilli: 400, WantsIndex: true}, err: "do not ask for the same"},
		{name: "whole and share", requests: requests(GPUResource, "1", GPUMilliResource, "400"), want: GPURequest{GPU: 1, WantsIndex: true}, err: "do not ask for the same"},
		{name: "share, made small", annotations: map[string]string{GPUMilliAnnotation: "1"}, requests: requests(GPUMilliResource, "900"), want: GPURequest{GPUMilli: 900, WantsIndex: true}, err: "do not ask for the same"},
		{name: "share, made nothing", annotations: map[string]string{GPUMilliAnnotation: "none"}, requests: requests(GPUMilliResource, "900"), want: GPURequest{GPUMilli: 900, WantsIndex: true}, err: "not a whole number"},
		{name: "whole, made shares", annotations: map[string]string{GPUCountAnnotation: "2", GPUMilliAnnotation: "500"}, requests: requests(GPUResource, "2"), want: GPURequest{GPU: 2}, err: "may share it"},
		{name: "requests that disagree", requests: requests(GPUResource, "1", GPUMilliResource, "3000"), want: GPURequest{GPU: 3, WantsIndex: true}, err: "do not ask for the same"},
		{name: "word", annotations: map[string]string{GPUMilliAnnotation: "half"}, err: `annotation alibabacloud.com/gpu-milli is "half", not a whole number from 0 to 1000`},
		{name: "too much", annotations: map[string]string{GPUMilliAnnotation: "1001"}, err: "not a whole number from 0 to 1000"},
		{name: "negative", annotations: map[string]string{GPUCountAnnotation: "-1"}, err: "not a whole number from 0 to 64"},
	} {
		got, err := GPURequestOf(c.annotations, AmountsIn(c.requests))
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s:\n%s", c.name, d)
		}
	}
}

// GPURequestOf reads what GPUAnnotations and GPUResourceList write.
func TestWrittenGPURequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := GPURequest{WantsIndex: true, Models: rapid.SampledFrom([][]string{nil, {"T4"}, {"A10", "T4"}}).Draw(t, "models")}
		if rapid.Bool().Draw(t, "share") {
			want.GPUMilli = int64(rapid.IntRange(1, 999).Draw(t, "milli"))
		} else {
			want.GPU = int64(rapid.IntRange(1, 64).Draw(t, "devices"))
		}
		r := cluster.Resources{MilliCPU: 5, GPU: want.GPU, GPUMilli: want.GPUMilli}
		annotations, list := GPUAnnotations(r, want.Models), GPUResourceList(r)
		got, err := GPURequestOf(annotations, AmountsIn(list))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
	none := cluster.Resources{MilliCPU: 5}
	if a, l := GPUAnnotations(none, []string{"T4"}), GPUResourceList(none); a != nil || l != nil {
		t.Errorf("a pod without GPUs has %v and %v", a, l)
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

func TestSetGPUs(t *testing.T) {
	offered := corev1.ResourceList{}
	AddGPUs(offered, 8)
	for _, c := range []struct {
		name   string
		labels map[string]string
		list   corev1.ResourceList
		gpu    int64
		model  string
		known  bool
	}{
		{name: "none", list: requests("cpu", "4"), labels: map[string]string{GPUModelAnnotation: "T4"}},
		{name: "all words", list: offered, labels: map[string]string{GPUModelAnnotation: "T4", productLabel: "Tesla-T4"}, gpu: 8, model: "T4", known: true},
		{name: "device plugin", list: requests(GPUResource, "2"), labels: map[string]string{productLabel: "Tesla-T4"}, gpu: 2, model: "Tesla-T4", known: true},
		{name: "count", list: requests(GPUCountResource, "3"), gpu: 3, known: true},
		{name: "milli", list: requests(GPUMilliResource, "4000"), gpu: 4, known: true},
		{name: "more than there are bits", list: requests(GPUResource, "65"), gpu: 65},
	} {
		n := cluster.Node{}
		SetGPUs(&n, c.labels, AmountsIn(c.list))
		if n.Allocatable.GPU != c.gpu || n.GPUModel != c.model || n.HasDevices() != c.known || c.known && int64(len(n.GPUs)) != c.gpu {
			t.Errorf("%s: %d devices of %q, %v", c.name, n.Allocatable.GPU, n.GPUModel, n.GPUs)
		}
		if got, want := AmountsIn(c.list).SharesGPUs(), c.list[GPUMilliResource] != (resource.Quantity{}) || c.list[GPUCountResource] != (resource.Quantity{}); got != want {
			t.Errorf("%s: shares GPUs: %v", c.name, got)
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
		var running []RunningPod
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
			p := RunningPod{Requests: r, Devices: n.Add(r)}
			if rapid.Bool().Draw(t, "silent") {
				p.Devices = 0 // which a pod need not say; then only the total is sure
			}
			running = append(running, p)
			silent = silent || p.Devices == 0 && r.GPUMilli > 0
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
}

// Anybody may write on which devices a pod is, so that it counts only where there is room.
func TestPlaceDoubtsWhatPodsSay(t *testing.T) {
	share := func(milli int64, on ...int) RunningPod { return running(cluster.Resources{GPUMilli: milli}, on...) }
	whole := func(devices int64, on ...int) RunningPod { return running(cluster.Resources{GPU: devices}, on...) }
	for _, c := range []struct {
		name string
		pods []RunningPod
		want []int64
	}{
		{"no such device", []RunningPod{share(300, 5)}, []int64{300, 0, 0}},
		{"two where one would do", []RunningPod{share(300, 0, 1)}, []int64{300, 0, 0}},
		{"one where it has two", []RunningPod{whole(2, 2)}, []int64{1000, 1000, 0}},
		{"no GPU", []RunningPod{running(cluster.Resources{MilliCPU: 1}, 1)}, []int64{0, 0, 0}},
		{"with a sound one", []RunningPod{share(300, 5), share(300, 0, 1), share(200, 1)}, []int64{0, 800, 0}},
		{"whole, twice", []RunningPod{whole(1, 0), whole(1, 0)}, []int64{1000, 1000, 0}},
		{"whole, three times", []RunningPod{whole(1, 2), whole(1, 2), whole(1, 2)}, []int64{1000, 1000, 1000}},
		{"shares, beyond one device", []RunningPod{share(600, 1), share(600, 1)}, []int64{600, 600, 0}},
		{"shares that go together", []RunningPod{share(600, 1), share(400, 1)}, []int64{0, 1000, 0}},
		{"a share on a whole one", []RunningPod{share(1, 0), whole(1, 0)}, []int64{1000, 1, 0}},
		{"overlapping", []RunningPod{whole(2, 1, 2), whole(1, 2)}, []int64{1000, 1000, 1000}},
		{"more than there is", []RunningPod{whole(3, 0, 1, 2), whole(1, 0)}, []int64{2000, 1000, 1000}},
	} {
		for range 2 { // and the other way round
			n := &cluster.Node{Allocatable: cluster.Resources{GPU: 3}, GPUs: make([]int64, 3)}
			Place(n, slices.Clone(c.pods))
			if !slices.Equal(n.GPUs, c.want) {
				t.Errorf("%s: got %v, want %v", c.name, n.GPUs, c.want)
			}
			slices.Reverse(c.pods)
		}
	}
}

func running(r cluster.Resources, on ...int) (p RunningPod) {
	p.Requests = r
	for _, i := range on {
		p.Devices |= cluster.Device(i)
	}
	return p
}

// Whatever pods say, a device is in use twice only where there are not enough, and the books do
// not depend on the order.
func TestPlaceOfLiars(t *testing.T) {
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
		var books [][]int64
		for range 2 {
			n := &cluster.Node{Allocatable: cluster.Resources{GPU: int64(devices)}, GPUs: make([]int64, devices)}
			Place(n, rapid.Permutation(pods).Draw(t, "order"))
			books = append(books, n.GPUs)
			var used int64
			for _, u := range n.GPUs {
				used += u
			}
			if used != total || slices.Max(n.GPUs) > cluster.DeviceMilli {
				t.Fatalf("%+v gives %v", pods, n.GPUs)
			}
		}
		if !slices.Equal(books[0], books[1]) {
			t.Fatalf("one order gives %v, another %v", books[0], books[1])
		}
	})
}

// FuzzGPURequestOf checks that whatever people write on a pod, what is read asks for whole devices or
// a share of one of a few models, no less than its resources do, and that devices survive being
// written.
func FuzzGPURequestOf(f *testing.F) {
	f.Add("1", "460", "A10|T4", "0", int64(0), int64(460))
	f.Add("2", "1000", "", "0-1", int64(2), int64(0))
	f.Add("", "-1", "|", "64", int64(1), int64(1500))
	f.Add("", "1", strings.Repeat("T4|", 99), strings.Repeat("0-", 999)+"0", int64(0), int64(900))
	f.Add("0", "0", " T4 | T4 ", "0-1-63", int64(9), int64(9000))
	f.Fuzz(func(t *testing.T, count, milli, model, index string, whole, request int64) {
		annotations := map[string]string{GPUCountAnnotation: count, GPUMilliAnnotation: milli, GPUModelAnnotation: model, GPUIndexAnnotation: index}
		amounts := Amounts{GPU: max(whole, 0), GPUMilli: max(request, 0)} // the API server rejects negative amounts
		r, err := GPURequestOf(annotations, amounts)
		if r.GPU < 0 || r.GPUMilli < 0 || r.GPUMilli >= cluster.DeviceMilli || r.GPU > 0 && r.GPUMilli > 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		if r.GPU < amounts.GPU || r.GPU < amounts.GPUMilli/cluster.DeviceMilli || r.GPU == 0 && r.GPUMilli < amounts.GPUMilli {
			t.Fatalf("it asks for %+v, less than for %+v: %v", r, amounts, err)
		}
		if len(r.Models) > 32 || slices.Contains(r.Models, "") || len(r.Models) > 0 && r.None() {
			t.Fatalf("models %q, %v", r.Models, err)
		}
		on := Devices(annotations)
		if again := Devices(map[string]string{GPUIndexAnnotation: FormatDevices(on)}); again != on {
			t.Fatalf("%b became %b", on, again)
		}
	})
}
