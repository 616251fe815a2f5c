package kube

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
)

var (
	drawnTaints = []cluster.Taint{
		{Key: "a", Value: "1", Effect: cluster.NoSchedule}, {Key: "b", Effect: cluster.PreferNoSchedule}, {Key: "c", Effect: cluster.NoExecute},
	}
	drawnModels = []string{"T4", "A10"}
	drawnTolers = []cluster.Toleration{
		{Key: "a", Value: "1", Effect: cluster.NoSchedule}, {Exists: true}, {Key: "b", Exists: true, Effect: cluster.NoExecute},
	}
)

func drawRequests(t *rapid.T) cluster.Resources {
	r := cluster.Resources{MilliCPU: rapid.Int64Range(0, 4000).Draw(t, "cpu"), Memory: rapid.Int64Range(0, 1<<40).Draw(t, "memory"), Pods: 1}
	switch rapid.IntRange(0, 2).Draw(t, "gpu") {
	case 1:
		r.GPU = rapid.Int64Range(1, 8).Draw(t, "devices")
	case 2:
		r.GPUMilli = rapid.Int64Range(1, 999).Draw(t, "share")
	}
	return r
}

// Node reads what Capacity, NodeLabels and Taints write.
func TestNodeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &cluster.Node{
			Name: "n", Zone: rapid.SampledFrom([]string{"", "east"}).Draw(t, "zone"),
			Labels:        map[string]string{"disk": "ssd"},
			Taints:        drawnTaints[:rapid.IntRange(0, 3).Draw(t, "taints")],
			Unschedulable: rapid.Bool().Draw(t, "cordoned"),
			Allocatable: cluster.Resources{
				MilliCPU: rapid.Int64Range(1, 1<<20).Draw(t, "cpu"), Memory: rapid.Int64Range(1, 1<<40).Draw(t, "memory"), Pods: 110,
			},
		}
		if devices := rapid.Int64Range(0, 8).Draw(t, "devices"); devices > 0 {
			want.Allocatable.GPU = devices
			want.GPUs = make([]int64, devices)
			want.GPUModel = rapid.SampledFrom(drawnModels).Draw(t, "model")
		}
		labels := NodeLabels(want)
		got := Node(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels},
			Spec:       corev1.NodeSpec{Taints: Taints(want.Taints), Unschedulable: want.Unschedulable},
			Status:     corev1.NodeStatus{Allocatable: Capacity(want.Allocatable)},
		})
		if d := cmp.Diff(labels, got.Labels); d != "" {
			t.Fatal(d)
		}
		got.Labels = want.Labels // the object has two more: zone and model
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(cluster.Node{}, "Version")); d != "" {
			t.Fatal(d)
		}
		if d := cmp.Diff(map[string]string{"disk": "ssd"}, want.Labels); d != "" {
			t.Fatal("NodeLabels changed its argument: ", d)
		}
	})
	if l := NodeLabels(&cluster.Node{Name: "n"}); l != nil {
		t.Errorf("labels of a node without any: %v", l)
	}
}

// Pod and Running read what ResourceList, GPUAnnotations and Tolerations write.
func TestPodRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := cluster.Pod{
			Name: "p", Namespace: "ns", Requests: drawRequests(t),
			NodeSelector: map[string]string{"disk": "ssd"},
			Tolerations:  drawnTolers[:rapid.IntRange(0, 3).Draw(t, "tolerations")],
		}
		if want.Requests.TotalGPUMilli() > 0 {
			want.GPUModels = drawnModels[:rapid.IntRange(0, 2).Draw(t, "models")]
		}
		object := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", Annotations: GPUAnnotations(want.Requests, want.GPUModels)},
			Spec: corev1.PodSpec{
				NodeSelector: want.NodeSelector,
				Tolerations:  Tolerations(want.Tolerations),
				Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
					Requests: ResourceList(want.Requests), Limits: GPUResourceList(want.Requests),
				}}},
			},
		}
		got := fatal.Value(Pod(object))(t)
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
		devices := cluster.DeviceSet(rapid.Uint64Range(1, 255).Draw(t, "devices"))
		object.Annotations = maps.Clone(object.Annotations)
		if object.Annotations == nil {
			object.Annotations = map[string]string{}
		}
		object.Annotations[GPUIndexAnnotation] = FormatDevices(devices)
		running := fatal.Value(Running(object))(t)
		if want.Requests.TotalGPUMilli() == 0 {
			devices = 0 // a pod without GPUs has none, even if its annotation names some
		}
		if d := cmp.Diff(RunningPod{Requests: want.Requests, Devices: devices}, running); d != "" {
			t.Fatal(d)
		}
	})
}

func TestNonzeroResourceList(t *testing.T) {
	got := NonzeroResourceList(cluster.Resources{MilliCPU: 1500, GPUMilli: 300})
	if d := cmp.Diff(requests("cpu", "1500m", GPUMilliResource, "300"), got); d != "" {
		t.Error(d)
	}
	if l := ResourceList(cluster.Resources{}); len(l) != 2 {
		t.Errorf("ResourceList writes no zeros: %v", l)
	}
}

// Requests counts what kube-scheduler counts: init containers, sidecars, overhead and requests of
// the whole pod.
func TestRequests(t *testing.T) {
	container := func(cpu string, restart *corev1.ContainerRestartPolicy) corev1.Container {
		return corev1.Container{
			RestartPolicy: restart, Resources: corev1.ResourceRequirements{Requests: requests("cpu", cpu, GPUMilliResource, "100")},
		}
	}
	sidecar := container("300m", ptr.To(corev1.ContainerRestartPolicyAlways))
	for _, c := range []struct {
		name string
		spec corev1.PodSpec
		want Amounts
	}{
		{"nothing", corev1.PodSpec{}, Amounts{}},
		{"two containers", corev1.PodSpec{Containers: []corev1.Container{container("1", nil), container("500m", nil)}},
			Amounts{MilliCPU: 1500, GPUMilli: 200}},
		{"a large init container", corev1.PodSpec{InitContainers: []corev1.Container{container("2", nil)},
			Containers: []corev1.Container{container("1", nil)}}, Amounts{MilliCPU: 2000, GPUMilli: 100}},
		{"a sidecar", corev1.PodSpec{InitContainers: []corev1.Container{sidecar}, Containers: []corev1.Container{container("1", nil)}},
			Amounts{MilliCPU: 1300, GPUMilli: 200}},
		{"overhead", corev1.PodSpec{Overhead: requests("cpu", "50m", "memory", "1Mi"), Containers: []corev1.Container{container("1", nil)}},
			Amounts{MilliCPU: 1050, Memory: 1 << 20, GPUMilli: 100}},
		{"the whole pod", corev1.PodSpec{Resources: ptr.To(corev1.ResourceRequirements{Requests: requests("cpu", "3")}),
			Containers: []corev1.Container{container("1", nil)}}, Amounts{MilliCPU: 3000, GPUMilli: 100}},
	} {
		if got := Requests(&corev1.Pod{Spec: c.spec}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Tolerations with operators that package cluster does not know are left out, because they must not
// match more taints than the pod tolerates.
func TestPodDropsOtherTolerations(t *testing.T) {
	p, err := Pod(&corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{
		{Key: "level", Operator: "Gt", Value: "3"},
		{Key: "plain", Value: "1"}, // no operator means Equal
	}}})
	fatal.If(t, err)
	if d := cmp.Diff([]cluster.Toleration{{Key: "plain", Value: "1"}}, p.Tolerations); d != "" {
		t.Error(d)
	}
}

func TestFinished(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]bool{"": false, corev1.PodPending: false, corev1.PodRunning: false,
		corev1.PodSucceeded: true, corev1.PodFailed: true} {
		if got := Finished(&corev1.Pod{Status: corev1.PodStatus{Phase: phase}}); got != want {
			t.Errorf("phase %q: %v", phase, got)
		}
	}
}

// Snapshot keeps the order of the nodes, counts the pods without a node, and reports every pod with
// a contradictory request while counting the resources that it requests.
func TestSnapshot(t *testing.T) {
	node := func(name string) corev1.Node {
		return corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     corev1.NodeStatus{Allocatable: Capacity(cluster.Resources{MilliCPU: 8000, Memory: 1 << 30, GPU: 2, Pods: 10})},
		}
	}
	pod := func(name, on string, r cluster.Resources, devices string) corev1.Pod {
		p := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: GPUAnnotations(r, nil)},
			Spec: corev1.PodSpec{
				NodeName: on, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: ResourceList(r)}}},
			},
		}
		if devices != "" {
			p.Annotations[GPUIndexAnnotation] = devices
		}
		return p
	}
	nodes := []corev1.Node{node("b"), node("a"), node("empty")}
	pods := []corev1.Pod{
		pod("whole", "b", cluster.Resources{MilliCPU: 1000, GPU: 1}, "1"),
		pod("share", "a", cluster.Resources{MilliCPU: 500, GPUMilli: 300}, "1"),
		pod("cpu", "a", cluster.Resources{MilliCPU: 200, Memory: 1 << 20}, ""),
		pod("pending", "", cluster.Resources{MilliCPU: 100}, ""),
		pod("lost", "gone", cluster.Resources{MilliCPU: 100}, ""),
	}
	got, unbound, err := Snapshot(nodes, pods)
	if err != nil || unbound != 2 {
		t.Errorf("%d pods without a node, want 2; %v", unbound, err)
	}
	want := []struct {
		name      string
		requested cluster.Resources
		gpus      []int64
	}{
		{"b", cluster.Resources{MilliCPU: 1000, GPU: 1, Pods: 1}, []int64{0, 1000}},
		{"a", cluster.Resources{MilliCPU: 700, Memory: 1 << 20, GPUMilli: 300, Pods: 2}, []int64{0, 300}},
		{"empty", cluster.Resources{}, []int64{0, 0}},
	}
	for i, n := range got.Nodes {
		w := want[i]
		if n.Name != w.name || n.Requested != w.requested || !cmp.Equal(n.GPUs, w.gpus) {
			t.Errorf("node %d is %s with %+v and GPUs %v, want %+v", i, n.Name, n.Requested, n.GPUs, w)
		}
	}

	pods[0].Annotations[GPUCountAnnotation] = "2"
	pods[1].Annotations[GPUMilliAnnotation] = "half"
	got, _, err = Snapshot(nodes, pods)
	for _, part := range []string{"pod whole: its requests", `pod share: annotation alibabacloud.com/gpu-milli is "half"`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want %q", err, part)
		}
	}
	if got.Nodes[0].Requested != want[0].requested || got.Nodes[1].Requested != want[1].requested {
		t.Errorf("requested %+v and %+v", got.Nodes[0].Requested, got.Nodes[1].Requested)
	}
}

// requests builds a resource list from pairs of name and quantity.
func requests(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

// numbered returns a list of models 0|1|2 of the given length.
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
		{name: "whole, annotated", annotations: map[string]string{GPUCountAnnotation: "2", GPUMilliAnnotation: "1000"},
			requests: requests(GPUResource, "2"), want: GPURequest{GPU: 2, WantsIndex: true}},
		{name: "whole by annotations alone", annotations: map[string]string{GPUCountAnnotation: "4", GPUMilliAnnotation: "1000"},
			want: GPURequest{GPU: 4, WantsIndex: true}},
		{name: "count alone", annotations: map[string]string{GPUCountAnnotation: "4"}, want: GPURequest{GPU: 4, WantsIndex: true}},
		{name: "share by annotations", annotations: map[string]string{GPUCountAnnotation: "1", GPUMilliAnnotation: "460"},
			want: GPURequest{GPUMilli: 460, WantsIndex: true}},
		{name: "share alone", annotations: map[string]string{GPUMilliAnnotation: "460"}, want: GPURequest{GPUMilli: 460, WantsIndex: true}},
		{name: "share by request", requests: requests(GPUMilliResource, "460"), want: GPURequest{GPUMilli: 460, WantsIndex: true}},
		{name: "share by both", annotations: map[string]string{GPUMilliAnnotation: "460"}, requests: requests(GPUMilliResource, "460"),
			want: GPURequest{GPUMilli: 460, WantsIndex: true}},
		{name: "whole by milli", requests: requests(GPUMilliResource, "3000"), want: GPURequest{GPU: 3, WantsIndex: true}},
		{name: "none by annotations", annotations: map[string]string{GPUCountAnnotation: "0", GPUMilliAnnotation: "0"}},
		{name: "models", annotations: map[string]string{GPUModelAnnotation: "A10|T4"}, requests: requests(GPUResource, "1"),
			want: GPURequest{GPU: 1, Models: []string{"A10", "T4"}}},
		{name: "models of a pod without GPU", annotations: map[string]string{GPUModelAnnotation: "A10|T4"}},
		{name: "wrong models of a pod without GPU", annotations: map[string]string{GPUModelAnnotation: "|"}},
		{name: "models, untidy", annotations: map[string]string{GPUMilliAnnotation: "5", GPUModelAnnotation: " T4 |A10|T4"},
			want: GPURequest{GPUMilli: 5, Models: []string{"T4", "A10"}, WantsIndex: true}},
		{name: "as many models as there may be", annotations: map[string]string{GPUModelAnnotation: numbered(32)},
			requests: requests(GPUResource, "1"), want: GPURequest{GPU: 1, Models: strings.Split(numbered(32), "|")}},
		{name: "too many models", annotations: map[string]string{GPUMilliAnnotation: "5", GPUModelAnnotation: numbered(33)},
			want: GPURequest{GPUMilli: 5, WantsIndex: true}, err: "names more than 32 models"},
		{name: "one model, too often", annotations: map[string]string{GPUModelAnnotation: strings.Repeat("T4|", 40_000)},
			requests: requests(GPUResource, "1"), want: GPURequest{GPU: 1}, err: "names more than 32 models"},
		{name: "a model without a name", annotations: map[string]string{GPUModelAnnotation: "A10| |T4"},
			requests: requests(GPUMilliResource, "5"), want: GPURequest{GPUMilli: 5, WantsIndex: true}, err: "names no model"},
		{name: "a model with an endless name", annotations: map[string]string{GPUModelAnnotation: "A10|" + strings.Repeat("x", 64)},
			requests: requests(GPUResource, "1"), want: GPURequest{GPU: 1}, err: "64 characters"},
		{name: "devices that it chose itself", annotations: map[string]string{GPUIndexAnnotation: "0"}, requests: requests(GPUResource, "1"),
			want: GPURequest{GPU: 1, WantsIndex: true}},
		{name: "more than there are", requests: requests(GPUResource, "9223372036854775807"), want: GPURequest{GPU: 1 << 20},
			err: "more than 1048576"},
		{name: "more than there are in thousandths", requests: requests(GPUMilliResource, "9223372036854775807"),
			want: GPURequest{GPU: 1 << 20, WantsIndex: true}, err: "more than 1048576"},
		{name: "not one device", requests: requests(GPUMilliResource, "1500"), want: GPURequest{GPU: 2, WantsIndex: true},
			err: "it requests 1500 of alibabacloud.com/gpu-milli"},
		{name: "shares of two", annotations: map[string]string{GPUCountAnnotation: "2", GPUMilliAnnotation: "500"},
			err: "only a pod on one device may share it"},
		{name: "other count", annotations: map[string]string{GPUCountAnnotation: "2"}, requests: requests(GPUResource, "1"),
			want: GPURequest{GPU: 1}, err: "do not ask for the same"},
		{name: "other share", annotations: map[string]string{GPUMilliAnnotation: "300"}, requests: requests(GPUMilliResource, "400"),
			want: GPURequest{GPUMilli: 400, WantsIndex: true}, err: "do not ask for the same"},
		{name: "whole and share", requests: requests(GPUResource, "1", GPUMilliResource, "400"), want: GPURequest{GPU: 1, WantsIndex: true},
			err: "do not ask for the same"},
		{name: "share, made small", annotations: map[string]string{GPUMilliAnnotation: "1"}, requests: requests(GPUMilliResource, "900"),
			want: GPURequest{GPUMilli: 900, WantsIndex: true}, err: "do not ask for the same"},
		{name: "share, made nothing", annotations: map[string]string{GPUMilliAnnotation: "none"}, requests: requests(GPUMilliResource, "900"),
			want: GPURequest{GPUMilli: 900, WantsIndex: true}, err: "not a whole number"},
		{name: "whole, made shares", annotations: map[string]string{GPUCountAnnotation: "2", GPUMilliAnnotation: "500"},
			requests: requests(GPUResource, "2"), want: GPURequest{GPU: 2}, err: "may share it"},
		{name: "requests that disagree", requests: requests(GPUResource, "1", GPUMilliResource, "3000"),
			want: GPURequest{GPU: 3, WantsIndex: true}, err: "do not ask for the same"},
		{name: "word", annotations: map[string]string{GPUMilliAnnotation: "half"},
			err: `annotation alibabacloud.com/gpu-milli is "half", not a whole number from 0 to 1000`},
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
		got := fatal.Value(GPURequestOf(annotations, AmountsIn(list)))(t)
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
	none := cluster.Resources{MilliCPU: 5}
	if a, l := GPUAnnotations(none, []string{"T4"}), GPUResourceList(none); a != nil || l != nil {
		t.Errorf("a pod without GPUs has %v and %v", a, l)
	}
}

// FuzzGPURequestOf checks, for any annotations, that the request is for whole devices or for a
// share of one device, is no less than the requested resources and names few models. It also
// checks that devices survive formatting.
func FuzzGPURequestOf(f *testing.F) {
	f.Add("1", "460", "A10|T4", "0", int64(0), int64(460))
	f.Add("2", "1000", "", "0-1", int64(2), int64(0))
	f.Add("", "-1", "|", "64", int64(1), int64(1500))
	f.Add("", "1", strings.Repeat("T4|", 99), strings.Repeat("0-", 999)+"0", int64(0), int64(900))
	f.Add("0", "0", " T4 | T4 ", "0-1-63", int64(9), int64(9000))
	f.Fuzz(func(t *testing.T, count, milli, model, index string, whole, request int64) {
		annotations := map[string]string{
			GPUCountAnnotation: count, GPUMilliAnnotation: milli, GPUModelAnnotation: model, GPUIndexAnnotation: index,
		}
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

// Errors quote the beginning of a long value only.
func TestLongValuesAreTruncated(t *testing.T) {
	for _, value := range []string{strings.Repeat("9", 200_000), strings.Repeat("é", 100_000), strings.Repeat("\x00", 200_000)} {
		for _, name := range []string{GPUMilliAnnotation, GPUCountAnnotation} {
			_, err := GPURequestOf(map[string]string{name: value}, Amounts{})
			if err == nil || len(err.Error()) > 400 || !strings.Contains(err.Error(), "(200000 bytes)") {
				t.Errorf("%s: %.500v", name, err)
			}
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
		known  bool // the devices are known one by one
		shared bool
	}{
		{name: "none", list: requests("cpu", "4"), labels: map[string]string{GPUModelLabel: "T4"}},
		{name: "all resources", list: offered, labels: map[string]string{GPUModelLabel: "T4", productLabel: "Tesla-T4"}, gpu: 8, model: "T4",
			known: true, shared: true},
		{name: "device plugin", list: requests(GPUResource, "2"), labels: map[string]string{productLabel: "Tesla-T4"}, gpu: 2,
			model: "Tesla-T4", known: true},
		{name: "count", list: requests(GPUCountResource, "3"), gpu: 3, known: true, shared: true},
		{name: "milli", list: requests(GPUMilliResource, "4000"), gpu: 4, known: true, shared: true},
		{name: "more than a DeviceSet holds", list: requests(GPUResource, "65"), gpu: 65},
	} {
		n := cluster.Node{}
		object := &corev1.Node{}
		object.Labels = c.labels
		SetGPUs(&n, object, AmountsIn(c.list))
		if n.Allocatable.GPU != c.gpu || n.GPUModel != c.model || n.HasDevices() != c.known || c.known && int64(len(n.GPUs)) != c.gpu {
			t.Errorf("%s: %d devices of %q, %v", c.name, n.Allocatable.GPU, n.GPUModel, n.GPUs)
		}
		if got := AmountsIn(c.list).SharesGPUs(); got != c.shared {
			t.Errorf("%s: shares GPUs: %v", c.name, got)
		}
	}
}

// Lost devices are closed where idle ones are, and the others keep their numbers.
func TestCloseLost(t *testing.T) {
	object := &corev1.Node{}
	object.Status.Capacity, object.Status.Allocatable = requests(GPUResource, "4"), requests(GPUResource, "2")
	for _, c := range []struct {
		name   string
		used   []int64
		before cluster.DeviceSet
		want   []int64
	}{
		{"the highest idle ones", []int64{0, 0, 0, 0}, 0, []int64{0, 0, 1000, 1000}},
		{"none in use", []int64{0, 5, 0, 1000}, 0, []int64{1000, 5, 1000, 1000}},
		{"those of before", []int64{0, 0, 0, 0}, cluster.Device(0), []int64{1000, 0, 0, 1000}},
		{"too few idle", []int64{1, 2, 3, 0}, 0, []int64{1, 2, 3, 1000}},
	} {
		n := Node(object)
		if n.Allocatable.GPU != 2 || len(n.GPUs) != 4 {
			t.Fatalf("%d allocatable devices of %d", n.Allocatable.GPU, len(n.GPUs))
		}
		copy(n.GPUs, c.used)
		if lost := CloseLost(n, c.before); !slices.Equal(n.GPUs, c.want) || lost.Len() > 2 {
			t.Errorf("%s: %v, want %v", c.name, n.GPUs, c.want)
		}
	}
}

func TestPower(t *testing.T) {
	node := func(text string) *corev1.Node {
		n := &corev1.Node{}
		n.Annotations = map[string]string{PowerAnnotation: text}
		return n
	}
	m, err := Power(node(`{"idle": 60, "full": 240, "curve": [100, 140, 190], "sleep": 5}`))
	if err != nil || m.Idle != 60 || m.At(0.5) != 140 || *m.Sleep != 5 {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err := Power(&corev1.Node{}); m != nil || err != nil {
		t.Errorf("without an annotation: %+v, %v", m, err)
	}
	for text, want := range map[string]string{
		"":                           "annotation gnnsched.io/power: ",
		"60":                         "annotation gnnsched.io/power: ",
		`{"idle": 60}`:               "full: 0 is not 60 to 100000 watts",
		`{}`:                         "full: 0 is not 0.001 to 100000 watts",
		`{"idle": 1, "max": 2}`:      "max",
		`{"idle": "\n\u001b[31m"}`:   "annotation gnnsched.io/power: ",
		strings.Repeat(" ", 5000):    "5000 bytes, more than 4096",
		`{"idle": -1, "full": 1e99}`: "idle: -1",
	} {
		m, err := Power(node(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n\x1b") || m != nil {
			t.Errorf("%.40q: %+v, %v, want %q", text, m, err, want)
		}
	}
}
