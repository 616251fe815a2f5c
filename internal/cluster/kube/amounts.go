package kube

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"gnnsched/internal/cluster"
)

// Amounts holds the amounts of a Kubernetes resource list that this module uses: the capacity of a node or the request of a pod. A caller
// that has these numbers already, such as a kube-scheduler plugin, fills it in without parsing quantities again.
type Amounts struct {
	MilliCPU int64 // thousandths of a core
	Memory   int64 // bytes
	Pods     int64 // pod slots
	GPU      int64 // GPUResource
	GPUCount int64 // GPUCountResource
	GPUMilli int64 // GPUMilliResource
}

// AmountsIn returns the amounts in a resource list.
func AmountsIn(list corev1.ResourceList) Amounts {
	value := func(name corev1.ResourceName) int64 {
		q, present := list[name]
		if !present {
			return 0
		}
		return q.Value()
	}
	return Amounts{
		MilliCPU: list.Cpu().MilliValue(),
		Memory:   list.Memory().Value(),
		Pods:     list.Pods().Value(),
		GPU:      value(GPUResource),
		GPUCount: value(GPUCountResource),
		GPUMilli: value(GPUMilliResource),
	}
}

// counted selects the requests that count, as in kube-scheduler: while a resize is in progress, the larger of the specification and the
// resources that the kubelet holds or has allocated by the status.
var counted = resource.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}

// RequestList returns the resources that a pod takes of its node as kube-scheduler counts them: its containers, sidecars, init containers
// and overhead, or the requests of the whole pod, resizes in progress included.
func RequestList(p *corev1.Pod) corev1.ResourceList { return resource.PodRequests(p, counted) }

// Requests returns the amounts of RequestList.
func Requests(p *corev1.Pod) Amounts { return AmountsIn(RequestList(p)) }

// SharesGPUs reports whether a node offers the resources for shares of GPUs. All pods with GPUs
// on such a node get a GPUIndexAnnotation.
func (a Amounts) SharesGPUs() bool { return a.GPUMilli > 0 || a.GPUCount > 0 }

// HasGPUs reports whether a node offers GPUs, whole or in shares.
func (a Amounts) HasGPUs() bool { return a.devices() > 0 }

// devices returns the number of a node's GPUs.
func (a Amounts) devices() int64 {
	switch {
	case a.GPU != 0:
		return a.GPU
	case a.GPUCount != 0:
		return a.GPUCount
	}
	return a.GPUMilli / cluster.DeviceMilli
}

// Containers yields the containers of a pod that upstream counts: init containers, native sidecars among them, and then the main ones.
// Ephemeral containers request nothing and take no ports, so no filter or score looks at them. The sum of their requests exceeds the pod's
// request; see Requests.
func Containers(p *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [...][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// Lasting yields the containers that run as long as the pod does: the native sidecars and the main containers.
func Lasting(p *corev1.Pod) iter.Seq[*corev1.Container] {
	main := len(p.Spec.InitContainers)
	return func(yield func(*corev1.Container) bool) {
		i := 0
		for c := range Containers(p) {
			if (i >= main || sidecar(c)) && !yield(c) {
				return
			}
			i++
		}
	}
}

// sidecar reports whether an init container is a native sidecar.
func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// HostPorts returns the ports of its node that a pod takes. Ports of init containers that end do not count, as in upstream's filter.
func HostPorts(p *corev1.Pod) (out []corev1.ContainerPort) {
	for c := range Lasting(p) {
		for _, port := range c.Ports {
			if port.HostPort > 0 {
				out = append(out, port)
			}
		}
	}
	return out
}

// VolumeClaims returns the names of a pod's PersistentVolumeClaims, those of generic ephemeral volumes included.
func VolumeClaims(p *corev1.Pod) (names []string) {
	for _, v := range p.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, p.Name+"-"+v.Name)
		}
	}
	return names
}

// Images returns the images of all containers and of volumes, as upstream's ImageLocality counts them. An image may be there twice.
func Images(p *corev1.Pod) (out []string) {
	for c := range Containers(p) {
		out = append(out, c.Image)
	}
	for i := range p.Spec.Volumes {
		if image := p.Spec.Volumes[i].Image; image != nil {
			out = append(out, image.Reference)
		}
	}
	return out
}
