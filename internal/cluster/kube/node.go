package kube

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
)

// Node translates a node, without the pods that run on it. Its devices are known one by one if it
// has at most cluster.MaxDevices. Its labels are shared with n.
func Node(n *corev1.Node) *cluster.Node { return NodeWith(n, AmountsIn(n.Status.Allocatable)) }

// NodeWith is Node for a caller that has the node's allocatable amounts already.
func NodeWith(n *corev1.Node, allocatable Amounts) *cluster.Node {
	out := &cluster.Node{
		Version:       cluster.NextVersion(),
		Name:          n.Name,
		Zone:          n.Labels[corev1.LabelTopologyZone],
		Labels:        n.Labels,
		Unschedulable: n.Spec.Unschedulable,
		Allocatable:   cluster.Resources{MilliCPU: allocatable.MilliCPU, Memory: allocatable.Memory, Pods: allocatable.Pods},
	}
	for _, t := range n.Spec.Taints {
		out.Taints = append(out.Taints, cluster.Taint{Key: t.Key, Value: t.Value, Effect: cluster.Effect(t.Effect)})
	}
	SetGPUs(out, n, allocatable)
	return out
}

// SetGPUs sets the GPU fields of n from its object and the object's allocatable amounts: the number of
// allocatable GPUs, their model, and, if there are at most cluster.MaxDevices, the devices, with nothing
// in use. Devices are numbered by the node's capacity, so that a lost device, which is not allocatable
// any more, does not renumber the others; see CloseLost.
func SetGPUs(n *cluster.Node, object *corev1.Node, allocatable Amounts) {
	n.Allocatable.GPU = allocatable.devices()
	n.GPUs, n.GPUModel = nil, ""
	devices := max(n.Allocatable.GPU, AmountsIn(object.Status.Capacity).devices())
	if devices <= 0 {
		return
	}
	if n.GPUModel = object.Labels[GPUModelLabel]; n.GPUModel == "" {
		n.GPUModel = object.Labels[productLabel]
	}
	if devices <= cluster.MaxDevices {
		n.GPUs = make([]int64, devices)
	}
}

// CloseLost counts devices of n as full that are in its capacity but not in its allocatable amounts, and returns them. Kubernetes tells
// only their number. So devices that pods use stay open, and idle ones are closed: first the devices in before, which were closed before,
// then the highest numbers. If too few are idle, the lost devices are among the used ones, and no more are closed.
func CloseLost(n *cluster.Node, before cluster.DeviceSet) (lost cluster.DeviceSet) {
	missing := int64(len(n.GPUs)) - n.Allocatable.GPU
	for _, candidates := range []cluster.DeviceSet{before, ^before} {
		for i := len(n.GPUs) - 1; i >= 0 && missing > 0; i-- {
			if candidates.Has(i) && n.GPUs[i] == 0 {
				n.GPUs[i] = cluster.DeviceMilli
				lost |= cluster.Device(i)
				missing--
			}
		}
	}
	return lost
}

// PowerAnnotation is a node's annotation with the power of its machine in watts, as JSON:
//
//	{"idle": 60, "full": 240, "curve": [100, 140, 190], "sleep": 5}
const PowerAnnotation = "gnnsched.io/power"

// maxPower is the longest annotation that is read, in bytes.
const maxPower = 4 << 10

// Power returns the model in a node's annotation; nil without one. Errors are short and free of control characters.
func Power(n *corev1.Node) (*cluster.PowerModel, error) {
	text, has := n.Annotations[PowerAnnotation]
	if !has {
		return nil, nil
	}
	if len(text) > maxPower {
		return nil, fmt.Errorf("annotation %s has %d bytes, more than %d", PowerAnnotation, len(text), maxPower)
	}
	m := &cluster.PowerModel{}
	err := cluster.DecodeStrict([]byte(text), m)
	if err == nil {
		err = m.Validate()
	}
	if err != nil {
		return nil, errors.New("annotation " + PowerAnnotation + ": " + exit.Clean(strings.ReplaceAll(err.Error(), "\n", "; "), 300))
	}
	return m, nil
}

// Snapshot translates a cluster: the nodes, in their order, with the pods that run on them.
// unbound is the number of pods that run on none of the nodes. A pod counts in any phase, so
// callers leave out pods that have finished.
//
// The error names every pod with a contradictory GPU request. The snapshot then counts the trustworthy part of their requests, as Running
// does.
func Snapshot(nodes []corev1.Node, pods []corev1.Pod) (snapshot cluster.Snapshot, unbound int, err error) {
	running := make(map[string][]RunningPod, len(nodes))
	for i := range nodes {
		snapshot.Nodes = append(snapshot.Nodes, Node(&nodes[i]))
		running[nodes[i].Name] = nil
	}
	var errs []error
	for i := range pods {
		p := &pods[i]
		if _, known := running[p.Spec.NodeName]; !known {
			unbound++
			continue
		}
		r, err := Running(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %s: %w", p.Name, err))
		}
		running[p.Spec.NodeName] = append(running[p.Spec.NodeName], r)
	}
	for _, n := range snapshot.Nodes {
		Place(n, running[n.Name])
		CloseLost(n, 0)
	}
	return snapshot, unbound, errors.Join(errs...)
}

// ResourceList writes a pod's requests or limits: CPU, memory and GPUs. CPU and memory are always
// present, also as 0: kube-scheduler's scoring assumes a default amount for an absent request. See
// NonzeroResourceList.
func ResourceList(r cluster.Resources) corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(r.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(r.Memory, resource.BinarySI),
	}
	maps.Copy(list, GPUResourceList(r))
	return list
}

// NonzeroResourceList is ResourceList without CPU and memory that are 0.
func NonzeroResourceList(r cluster.Resources) corev1.ResourceList {
	list := ResourceList(r)
	maps.DeleteFunc(list, func(_ corev1.ResourceName, q resource.Quantity) bool { return q.IsZero() })
	return list
}

// GPUResourceList writes a pod's request for GPUs alone: whole GPUs as GPUResource, a share as
// GPUMilliResource. It is nil without GPUs. Kubernetes requires these requests to be the limits
// too.
func GPUResourceList(r cluster.Resources) corev1.ResourceList {
	switch {
	case r.GPU > 0:
		return corev1.ResourceList{GPUResource: *resource.NewQuantity(r.GPU, resource.DecimalSI)}
	case r.GPUMilli > 0:
		return corev1.ResourceList{GPUMilliResource: *resource.NewQuantity(r.GPUMilli, resource.DecimalSI)}
	}
	return nil
}

// GPUAnnotations writes a pod's request for GPUs as annotations, with the models that the pod
// accepts. It is nil without GPUs.
func GPUAnnotations(r cluster.Resources, models []string) map[string]string {
	count, milli := r.GPU, int64(cluster.DeviceMilli)
	switch {
	case r.GPU > 0:
	case r.GPUMilli > 0:
		count, milli = 1, r.GPUMilli
	default:
		return nil
	}
	out := map[string]string{
		GPUCountAnnotation: strconv.FormatInt(count, 10),
		GPUMilliAnnotation: strconv.FormatInt(milli, 10),
	}
	if len(models) > 0 {
		out[GPUModelAnnotation] = strings.Join(models, "|")
	}
	return out
}

// Affinity writes terms of required node affinity; nil without any.
func Affinity(terms [][]cluster.Requirement) *corev1.Affinity {
	if len(terms) == 0 {
		return nil
	}
	var s corev1.NodeSelector
	for _, term := range terms {
		var all []corev1.NodeSelectorRequirement
		for _, r := range term {
			all = append(all, corev1.NodeSelectorRequirement{Key: r.Key, Operator: corev1.NodeSelectorOperator(r.Operator), Values: r.Values})
		}
		s.NodeSelectorTerms = append(s.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: all})
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &s}}
}

// Capacity writes a node's capacity: CPU, memory, pod slots and GPUs.
func Capacity(r cluster.Resources) corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(r.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(r.Memory, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(r.Pods, resource.DecimalSI),
	}
	if r.GPU > 0 {
		AddGPUs(list, r.GPU)
	}
	return list
}

// AddGPUs adds devices, which may be shared, to a node's capacity.
func AddGPUs(capacity corev1.ResourceList, devices int64) {
	capacity[GPUResource] = *resource.NewQuantity(devices, resource.DecimalSI)
	capacity[GPUCountResource] = *resource.NewQuantity(devices, resource.DecimalSI)
	capacity[GPUMilliResource] = *resource.NewQuantity(devices*cluster.DeviceMilli, resource.DecimalSI)
}

// NodeLabels writes the labels of a node: its own, its zone and its GPU model. It is nil if there
// are none.
func NodeLabels(n *cluster.Node) map[string]string {
	out := map[string]string{}
	maps.Copy(out, n.Labels)
	if n.Zone != "" {
		out[corev1.LabelTopologyZone] = n.Zone
	}
	if n.GPUModel != "" {
		out[GPUModelLabel] = n.GPUModel
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// Taints writes the taints of a node.
func Taints(list []cluster.Taint) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range list {
		out = append(out, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return out
}

// Tolerations writes the tolerations of a pod.
func Tolerations(list []cluster.Toleration) []corev1.Toleration {
	var out []corev1.Toleration
	for _, t := range list {
		operator := corev1.TolerationOpEqual
		if t.Exists {
			operator = corev1.TolerationOpExists
		}
		out = append(out, corev1.Toleration{Key: t.Key, Operator: operator, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return out
}
