package kube_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
)

func cores(s string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(s)}
}

func container(name, request string, always bool) corev1.Container {
	c := corev1.Container{
		Name: name, Image: name + ":1", Resources: corev1.ResourceRequirements{Requests: cores(request)},
		Ports: []corev1.ContainerPort{{HostPort: 80}, {ContainerPort: 81}},
	}
	if always {
		c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	}
	return c
}

// During a resize, the largest of the wanted, allocated and held amounts counts, as in kube-scheduler's own account of the node.
func TestRequestsCountAResizeInProgress(t *testing.T) {
	status := func(name, allocated, actual string) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: name, AllocatedResources: cores(allocated),
			Resources: &corev1.ResourceRequirements{Requests: cores(actual), Limits: cores(actual)},
		}
	}
	whole := func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Requests: cores("1")} }
	for _, c := range []struct {
		name   string
		change func(*corev1.Pod)
		want   int64
	}{
		{"none", func(*corev1.Pod) {}, 1500},
		{"shrinks", func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{status("c", "4", "4")} }, 4500},
		{"allocated but not yet held", func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{status("c", "3", "1")} },
			3500},
		{"grows", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{status("c", "100m", "100m")}
		}, 1500},
		{"a sidecar shrinks", func(p *corev1.Pod) { p.Status.InitContainerStatuses = []corev1.ContainerStatus{status("s", "2", "2")} }, 3000},
		{"cannot grow", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{status("c", "200m", "200m")}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{status("s", "500m", "500m")}
			p.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible,
			}}
		}, 700},
		{"the whole pod", whole, 1000},
		{"the whole pod shrinks", func(p *corev1.Pod) {
			whole(p)
			p.Status.Resources, p.Status.AllocatedResources = &corev1.ResourceRequirements{Requests: cores("6")}, cores("5")
		}, 6000},
	} {
		p := &corev1.Pod{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{container("s", "500m", true)}, Containers: []corev1.Container{container("c", "1", false)},
		}}
		c.change(p)
		if got := kube.Requests(p).MilliCPU; got != c.want {
			t.Errorf("%s: %d millicores, want %d", c.name, got, c.want)
		}
		info := fatal.Value(framework.NewPodInfo(p))(t)
		if got := info.CalculateResource().Resource.GetMilliCPU(); got != c.want {
			t.Errorf("%s: kube-scheduler counts %d millicores, want %d", c.name, got, c.want)
		}
	}
}

// Host ports count for lasting containers only; images for all.
func TestHostPortsAndImages(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{container("once", "1", false), container("side", "1", true)},
		Containers:     []corev1.Container{container("main", "1", false)},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug",
			Image: "debug:1"}}},
		Volumes: []corev1.Volume{
			{Name: "v"}, {Name: "i", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "volume:1"}}},
		},
	}}
	if got, want := len(kube.HostPorts(p)), len(schedutil.GetHostPorts(p)); got != want || got != 2 {
		t.Errorf("%d host ports, upstream counts %d, want 2", got, want)
	}
	if got := strings.Join(kube.Images(p), " "); got != "once:1 side:1 main:1 volume:1" {
		t.Errorf("images: %s", got)
	}
	var names []string
	for c := range kube.Lasting(p) {
		names = append(names, c.Name)
		if c.Name == "side" {
			break
		}
	}
	if strings.Join(names, " ") != "side" {
		t.Errorf("lasting containers up to the sidecar: %v", names)
	}
}

func TestClaim(t *testing.T) {
	for _, c := range []struct {
		ask    cluster.Resources
		models []string
		count  int64
		shares string
		cel    string
	}{
		{ask: cluster.Resources{GPU: 4}, count: 4},
		{ask: cluster.Resources{GPUMilli: 460}, models: []string{"A10", `T"4`}, count: 1, shares: "460",
			cel: `has(device.attributes["gpu.nvidia.com"].productName) && device.attributes["gpu.nvidia.com"].productName in ["A10", "T\"4"]`},
	} {
		e := kube.Claim(c.ask, c.models).Devices.Requests[0].Exactly
		shares, cel := "", ""
		if e.Capacity != nil {
			q := e.Capacity.Requests[kube.GPUSharesCapacity]
			shares = q.String()
		}
		if len(e.Selectors) > 0 {
			cel = e.Selectors[0].CEL.Expression
		}
		if e.Count != c.count || shares != c.shares || cel != c.cel {
			t.Errorf("%+v: %d devices, %q shares, selector %s", c.ask, e.Count, shares, cel)
		}
	}
}

func TestReadClaimed(t *testing.T) {
	result := func(pool, device, shares string) resourceapi.DeviceRequestAllocationResult {
		out := resourceapi.DeviceRequestAllocationResult{Driver: kube.GPUDriver, Pool: pool, Device: device}
		if shares != "" {
			out.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{kube.GPUSharesCapacity: resource.MustParse(shares)}
		}
		return out
	}
	foreign := result("n", "gpu-0", "")
	foreign.Driver = "gpu.example.com"
	for _, c := range []struct {
		results []resourceapi.DeviceRequestAllocationResult
		want    kube.Claimed
		err     string
	}{
		{results: []resourceapi.DeviceRequestAllocationResult{result("n", "gpu-3", "1000"), result("n", "gpu-1", "1000")},
			want: kube.Claimed{Pool: "n", Devices: 0b1010, Milli: 1000}},
		{results: []resourceapi.DeviceRequestAllocationResult{result("n", "gpu-2", "460")},
			want: kube.Claimed{Pool: "n", Devices: 0b100, Milli: 460}},
		{results: []resourceapi.DeviceRequestAllocationResult{result("n", "gpu-0", "")}, want: kube.Claimed{Pool: "n", Devices: 1, Milli: 1000}},
		{err: "no allocation"},
		{results: []resourceapi.DeviceRequestAllocationResult{foreign}, err: "of driver gpu.example.com"},
		{results: []resourceapi.DeviceRequestAllocationResult{result("n", "gpu-64", "")}, err: "device gpu-64"},
		{results: []resourceapi.DeviceRequestAllocationResult{result("n", "gpu-0-mig-1g5gb-0", "")}, err: "not a GPU by its number"},
		{results: []resourceapi.DeviceRequestAllocationResult{result("n", "gpu-1", ""), result("m", "gpu-2", "")}, err: "pools n and m"},
		{results: []resourceapi.DeviceRequestAllocationResult{result("n", "gpu-1", "100"), result("n", "gpu-1", "100")}, err: "gpu-1 twice"},
		{results: []resourceapi.DeviceRequestAllocationResult{result("n", "gpu-1", "100"), result("n", "gpu-2", "200")},
			err: "100 thousandths of one device and 200"},
	} {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
		if c.results != nil {
			claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: c.results}}
		}
		got, err := kube.ReadClaimed(claim)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v: error %v, not %q", c.results, err, c.err)
			}
		} else if d := cmp.Diff(c.want, got); err != nil || d != "" {
			t.Errorf("%v %s", err, d)
		}
	}
}

func TestGPUsInSlices(t *testing.T) {
	slice := func(driver, node string, generation int64, devices, counters int) resourceapi.ResourceSlice {
		s := resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: ptr.To(node), Pool: resourceapi.ResourcePool{Name: node, Generation: generation},
		}}
		s.Spec.Devices, s.Spec.SharedCounters = make([]resourceapi.Device, devices), make([]resourceapi.CounterSet, counters)
		return s
	}
	parts := slice(kube.GPUDriver, "b", 1, 3, 0)
	for i := range parts.Spec.Devices {
		parts.Spec.Devices[i].ConsumesCounters = make([]resourceapi.DeviceCounterConsumption, 1)
	}
	everywhere := slice(kube.GPUDriver, "", 1, 5, 0)
	everywhere.Spec.NodeName = nil
	got := kube.GPUsInSlices([]resourceapi.ResourceSlice{
		slice(kube.GPUDriver, "a", 1, 8, 0), slice(kube.GPUDriver, "a", 2, 2, 0), slice("gpu.example.com", "a", 1, 1, 0),
		slice(kube.GPUDriver, "b", 1, 0, 2), parts, slice("nic.example.com", "b", 1, 4, 0), everywhere,
	})
	if d := cmp.Diff(map[string]int64{"a": 3, "b": 2}, got); d != "" {
		t.Error(d)
	}
}

// A pod's claims are its named claims, the claims made from its templates, and the one for its extended resources.
func TestClaimNames(t *testing.T) {
	text := func(s string) *string { return &s }
	p := &corev1.Pod{}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{
		{Name: "a", ResourceClaimName: text("named")}, {Name: "b", ResourceClaimTemplateName: text("t")},
		{Name: "c", ResourceClaimTemplateName: text("t")},
	}
	p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: text("made")}, {Name: "b"}}
	p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "extended"}
	if got := strings.Join(kube.ClaimNames(p), " "); got != "named made extended" {
		t.Errorf("got %q", got)
	}
}

// A pod for half a GPU of model T4 or A10, read as kube-scheduler's plugin reads it.
func ExamplePod() {
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "half",
			Annotations: map[string]string{
				kube.GPUMilliAnnotation: "500",
				kube.GPUModelAnnotation: "T4|A10",
			},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("250m"),
			}},
		}}},
	}
	pod, err := kube.Pod(object)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(pod.Requests.MilliCPU, pod.Requests.GPUMilli, pod.GPUModels)
	// Output: 250 500 [T4 A10]
}

// A cluster of one node, written as Kubernetes objects and read back.
func ExampleSnapshot() {
	offers := cluster.Resources{MilliCPU: 4000, Memory: 16 << 30, GPU: 2, Pods: 110}
	node := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-0", Labels: map[string]string{kube.GPUModelLabel: "T4"}},
		Status:     corev1.NodeStatus{Allocatable: kube.Capacity(offers)},
	}
	requests := cluster.Resources{MilliCPU: 500, Memory: 1 << 30, GPUMilli: 300}
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "share", Annotations: kube.GPUAnnotations(requests, nil)},
		Spec: corev1.PodSpec{NodeName: "gpu-0", Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: kube.ResourceList(requests), Limits: kube.GPUResourceList(requests)},
		}}},
	}
	pod.Annotations[kube.GPUIndexAnnotation] = kube.FormatDevices(cluster.Device(1))

	snapshot, unbound, err := kube.Snapshot([]corev1.Node{node}, []corev1.Pod{pod})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range snapshot.Nodes {
		fmt.Printf("%s (%s): %d m CPU used, GPUs %v\n", n.Name, n.GPUModel, n.Requested.MilliCPU, n.GPUs)
	}
	fmt.Println(unbound, "pods without a node")
	// Output:
	// gpu-0 (T4): 500 m CPU used, GPUs [0 300]
	// 0 pods without a node
}
