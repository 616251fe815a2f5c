package kube

import (
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/internal/cluster"
)

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
