package kube_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster/kube"
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
		info, err := framework.NewPodInfo(p)
		if err != nil {
			t.Fatal(err)
		}
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
