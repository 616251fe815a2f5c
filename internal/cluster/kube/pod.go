package kube

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-helpers/resource"

	"gnnsched/internal/cluster"
)

// Pod translates a pod: its requests, the GPU models it accepts, its node selector, its required node affinity and its tolerations.
// Affinity to fields is left out, and so are tolerations with an operator other than Equal or Exists.
//
// The error describes the fault of the pod's GPU request. The pod then holds the request's trustworthy part; see GPURequestOf.
func Pod(p *corev1.Pod) (cluster.Pod, error) {
	requests := Requests(p)
	gpu, err := GPURequestOf(p.Annotations, requests)
	return cluster.Pod{
		Name:         p.Name,
		Namespace:    p.Namespace,
		Requests:     podResources(requests, gpu),
		Limits:       Limits(p),
		NodeSelector: p.Spec.NodeSelector,
		NodeAffinity: nodeAffinity(p),
		Tolerations:  FromTolerations(p.Spec.Tolerations),
		GPUModels:    gpu.Models,
	}, err
}

// nodeAffinity returns the terms of a pod's required node affinity.
func nodeAffinity(p *corev1.Pod) [][]cluster.Requirement {
	a := p.Spec.Affinity
	if a == nil || a.NodeAffinity == nil {
		return nil
	}
	return Terms(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
}

// Terms translates a selector of nodes, as a pod's affinity or a volume has one; none for nil, or if a term is about a node's fields.
func Terms(s *corev1.NodeSelector) (terms [][]cluster.Requirement) {
	if s == nil {
		return nil
	}
	for _, term := range s.NodeSelectorTerms {
		if len(term.MatchFields) > 0 {
			return nil
		}
		all := []cluster.Requirement{}
		for _, r := range term.MatchExpressions {
			all = append(all, cluster.Requirement{Key: r.Key, Operator: string(r.Operator), Values: r.Values})
		}
		terms = append(terms, all)
	}
	return terms
}

// podResources returns the requests of one pod.
func podResources(requests Amounts, gpu GPURequest) cluster.Resources {
	return cluster.Resources{MilliCPU: requests.MilliCPU, Memory: requests.Memory, GPU: gpu.GPU, GPUMilli: gpu.GPUMilli, Pods: 1}
}

// Limits returns the limits of a pod's CPU and memory, resizes in progress included; 0 for a resource without one.
func Limits(p *corev1.Pod) cluster.Resources {
	limits := resource.PodLimits(p, counted)
	return cluster.Resources{MilliCPU: limits.Cpu().MilliValue(), Memory: limits.Memory().Value()}
}

// FromTolerations translates tolerations. Those with an operator other than Equal or Exists are left out.
func FromTolerations(list []corev1.Toleration) []cluster.Toleration {
	var out []cluster.Toleration
	for _, t := range list {
		exists := t.Operator == corev1.TolerationOpExists
		if exists || t.Operator == corev1.TolerationOpEqual || t.Operator == "" {
			out = append(out, cluster.Toleration{Key: t.Key, Value: t.Value, Exists: exists, Effect: cluster.Effect(t.Effect)})
		}
	}
	return out
}

// Finished reports whether a pod has succeeded or failed, so that it holds no resources any more.
func Finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// Names of resources, labels and annotations for GPUs. The package comment explains them.
const (
	// GPUResource counts whole GPUs, on nodes and in requests.
	GPUResource = "nvidia.com/gpu"
	// GPUCountResource counts the GPUs of a node.
	GPUCountResource = "alibabacloud.com/gpu-count"
	// GPUMilliResource counts thousandths of GPUs, on nodes and in requests.
	GPUMilliResource = "alibabacloud.com/gpu-milli"

	// GPUModelLabel is the label with the GPU model of a node.
	GPUModelLabel = "alibabacloud.com/gpu-card-model"

	// GPUCountAnnotation is the number of GPUs that a pod requests.
	GPUCountAnnotation = GPUCountResource
	// GPUMilliAnnotation holds the thousandths of each GPU that a pod requests.
	GPUMilliAnnotation = GPUMilliResource
	// GPUModelAnnotation lists the GPU models that a pod accepts, separated by |.
	GPUModelAnnotation = GPUModelLabel
	// GPUIndexAnnotation lists the devices that a pod runs on, separated by -.
	GPUIndexAnnotation = "alibabacloud.com/gpu-index"

	// HoldsAnnotation of a node says for which pods it is held; see package scheduler/plugin/nodereservation.
	HoldsAnnotation = "gnnsched.io/holds"
	// DefragAnnotation of a node begins with DefragMoving while pods are moved away from it.
	DefragAnnotation = "gnnsched.io/defrag"
	DefragMoving     = "moving"
)

// productLabel is the label in which NVIDIA's GPU feature discovery writes the model. A node
// without GPUModelLabel has this one's model.
const productLabel = "nvidia.com/gpu.product"

// NodeTerms returns the terms about nodes of an affinity, which may be nil: the required ones, then the preferred ones.
func NodeTerms(a *corev1.Affinity) (out []*corev1.NodeSelectorTerm) {
	if a == nil || a.NodeAffinity == nil {
		return nil
	}
	if r := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		for i := range r.NodeSelectorTerms {
			out = append(out, &r.NodeSelectorTerms[i])
		}
	}
	preferred := a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	for i := range preferred {
		out = append(out, &preferred[i].Preference)
	}
	return out
}

// PodTerms returns the terms about other pods of an affinity, which may be nil: affinity before anti-affinity, and of each the required
// ones first.
func PodTerms(a *corev1.Affinity) (out []*corev1.PodAffinityTerm) {
	if a == nil {
		return nil
	}
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range required {
			out = append(out, &required[i])
		}
		for i := range preferred {
			out = append(out, &preferred[i].PodAffinityTerm)
		}
	}
	if p := a.PodAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return out
}

// Workload returns the owner of a pod, as Kind/name: its controller, for a ReplicaSet the Deployment above it, and for a Job of a CronJob
// the CronJob. A pod without a controller may name its owner in an annotation, as a replay's pods do; else the result is empty.
func Workload(p *corev1.Pod) string {
	o := metav1.GetControllerOfNoCopy(p)
	if o == nil {
		return named(p.Annotations[WorkloadAnnotation])
	}
	switch hash := p.Labels["pod-template-hash"]; {
	case o.Kind == "ReplicaSet" && hash != "" && strings.HasSuffix(o.Name, "-"+hash):
		return "Deployment/" + strings.TrimSuffix(o.Name, "-"+hash)
	case o.Kind == "Job":
		if i := strings.LastIndexByte(o.Name, '-'); i > 0 && len(o.Name)-i-1 >= 8 && strings.Trim(o.Name[i+1:], "0123456789") == "" {
			return "CronJob/" + o.Name[:i] // its controller appends minutes since 1970
		}
	}
	return o.Kind + "/" + o.Name
}

// WorkloadAnnotation names the recorded owner of a replay's pod, such as Deployment/web.
const WorkloadAnnotation = "gnnsched.io/workload"

// named returns an annotation if it has the form Kind/name, else "". Any owner of a pod may write it.
func named(text string) string {
	kind, name, ok := strings.Cut(text, "/")
	if !ok || kind == "" || len(kind) > 63 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return ""
	}
	for _, r := range kind {
		if r < 'A' || r > 'z' || r > 'Z' && r < 'a' {
			return ""
		}
	}
	return text
}

// RunningPod holds the resources and devices that a pod takes of its node.
type RunningPod struct {
	Requests cluster.Resources
	Devices  cluster.DeviceSet // from GPUIndexAnnotation; empty if the pod has none or requests no GPU
}

// Running translates a pod that runs on a node. The error describes the fault of its GPU request; the result then holds the request's
// trustworthy part, as in Pod.
func Running(p *corev1.Pod) (RunningPod, error) { return RunningWith(p, Requests(p)) }

// RunningWith is Running for a caller that already knows the pod's requests.
func RunningWith(p *corev1.Pod, requests Amounts) (RunningPod, error) {
	gpu, err := GPURequestOf(p.Annotations, requests)
	r := RunningPod{Requests: podResources(requests, gpu)}
	if !gpu.None() {
		r.Devices = Devices(p.Annotations)
	}
	return r, err
}

// Place adds the running pods to n. It sorts pods by their GPU requests, largest first, so that the
// result does not depend on their order, and places them as PlaceInOrder does.
func Place(n *cluster.Node, pods []RunningPod) {
	slices.SortStableFunc(pods, LargestFirst)
	PlaceInOrder(n, pods)
}

// LargestFirst compares pods by their GPU requests, the largest first, and then by their devices.
func LargestFirst(a, b RunningPod) int {
	return cmp.Or(cmp.Compare(b.Requests.TotalGPUMilli(), a.Requests.TotalGPUMilli()), cmp.Compare(a.Devices, b.Devices))
}

// PlaceInOrder adds the running pods to n and returns the devices on which it counts each of them.
//
// Pods whose annotation names devices with room for them go on these devices. Then the other pods
// go on the devices that cluster.Node.ChooseDevices chooses: anyone can write the annotation, and
// a device used twice would hide another one that is idle.
func PlaceInOrder(n *cluster.Node, pods []RunningPod) []cluster.DeviceSet {
	on := make([]cluster.DeviceSet, len(pods))
	var rest []int
	for i, p := range pods {
		if p.Requests.TotalGPUMilli() > 0 && n.FitsOn(p.Requests, p.Devices) {
			n.AddOn(p.Requests, p.Devices)
			on[i] = p.Devices
		} else {
			rest = append(rest, i)
		}
	}
	for _, i := range rest {
		on[i] = n.Add(pods[i].Requests)
	}
	return on
}

// Quantities are requests, or what a node offers or has left, of any resource: thousandths of cores, and bytes or pieces of others.
type Quantities map[corev1.ResourceName]int64

// QuantitiesIn returns the quantities in a resource list.
func QuantitiesIn(list corev1.ResourceList) Quantities {
	out := make(Quantities, len(list)+1)
	for name, q := range list {
		if name == corev1.ResourceCPU {
			out[name] = q.MilliValue()
		} else {
			out[name] = q.Value()
		}
	}
	return out
}

// QuantitiesOf returns what a pod takes of a node, one of the node's pods included.
func QuantitiesOf(p *corev1.Pod) Quantities {
	out := QuantitiesIn(RequestList(p))
	out[corev1.ResourcePods] = 1
	return out
}

// Add adds b so many times; -1 takes it away.
func (a Quantities) Add(b Quantities, times int64) {
	for name, n := range b {
		a[name] += times * n
	}
}

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
