package kube

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
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
		got, err := Pod(object)
		fatal.If(t, err)
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
		devices := cluster.DeviceSet(rapid.Uint64Range(1, 255).Draw(t, "devices"))
		object.Annotations = maps.Clone(object.Annotations)
		if object.Annotations == nil {
			object.Annotations = map[string]string{}
		}
		object.Annotations[GPUIndexAnnotation] = FormatDevices(devices)
		running, err := Running(object)
		fatal.If(t, err)
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
