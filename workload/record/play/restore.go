package play

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/workload/record"
)

// Reader restores objects, and counts the columns that it cannot read. What cannot be read counts as empty. The zero
// value is ready to use.
type Reader struct {
	unreadable map[string]int // rows by the column
}

// Pod returns the pod of a row, without its node. It has one container with the pod's requests.
func (o *Reader) Pod(r *record.Pod) *v1.Pod {
	var models []string
	read(o, "gpu_models", r.GPUModels, &models)
	amounts := cluster.Resources{MilliCPU: r.MilliCPU, Memory: r.Memory, GPU: r.GPU, GPUMilli: r.GPUMilli}
	if r.GPU > 0 {
		amounts.GPUMilli = 0
	}
	requests := kube.NonzeroResourceList(amounts)
	o.quantities("extended", r.Extended, requests)
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		UID: types.UID(r.UID), Namespace: r.Namespace, Name: r.Name, CreationTimestamp: metav1.NewTime(time.UnixMilli(r.Arrived)),
		Annotations: modelsOf(amounts, models),
	}}
	p.Spec = v1.PodSpec{
		SchedulerName: v1.DefaultSchedulerName, Priority: &r.Priority, PriorityClassName: r.PriorityClass,
		Containers: []v1.Container{{
			Name: "main", Resources: v1.ResourceRequirements{Requests: requests, Limits: limits(r, requests)}, Ports: o.ports(r.HostPorts),
		}},
	}
	read(o, "labels", r.Labels, &p.Labels)
	read(o, "node_selector", r.NodeSelector, &p.Spec.NodeSelector)
	read(o, "tolerations", r.Tolerations, &p.Spec.Tolerations)
	read(o, "topology_spread", r.Spread, &p.Spec.TopologySpreadConstraints)
	var affinity v1.Affinity
	if read(o, "affinity", r.Affinity, &affinity) {
		p.Spec.Affinity = &affinity
	}
	if r.Preemption != "" {
		p.Spec.PreemptionPolicy = new(v1.PreemptionPolicy(r.Preemption))
	}
	if r.OwnerKind != "" {
		owner := metav1.OwnerReference{APIVersion: apiVersion(r.OwnerKind), Kind: r.OwnerKind, Name: r.OwnerName, Controller: new(true)}
		p.OwnerReferences = []metav1.OwnerReference{owner}
	} else if r.Daemon {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1.MirrorPodAnnotationKey, "")
	}
	return p
}

// limits returns the limits of CPU and memory that Kubernetes accepts beside the requests, and the limits of all other
// resources, which must be the requests.
func limits(r *record.Pod, requests v1.ResourceList) v1.ResourceList {
	out := v1.ResourceList{}
	for name, q := range requests {
		if name != v1.ResourceCPU && name != v1.ResourceMemory {
			out[name] = q
		}
	}
	if r.CPULimit > 0 && r.CPULimit >= r.MilliCPU {
		out[v1.ResourceCPU] = *resource.NewMilliQuantity(r.CPULimit, resource.DecimalSI)
	}
	if r.MemoryLimit > 0 && r.MemoryLimit >= r.Memory {
		out[v1.ResourceMemory] = *resource.NewQuantity(r.MemoryLimit, resource.BinarySI)
	}
	return out
}

// Labels returns the labels of a row of the table objects, which is a Namespace.
func (o *Reader) Labels(r *record.Object) (out map[string]string) {
	read(o, "spec", r.Spec, &out)
	return out
}

// Node returns a node in one of its states.
func (o *Reader) Node(r *record.Node) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.Name, UID: types.UID(r.Name)}, Spec: v1.NodeSpec{Unschedulable: r.Unschedulable}}
	read(o, "labels", r.Labels, &n.Labels)
	read(o, "taints", r.Taints, &n.Spec.Taints)
	n.Status.Allocatable = kube.Capacity(cluster.Resources{MilliCPU: r.MilliCPU, Memory: r.Memory, Pods: r.Pods, GPU: r.GPU})
	o.quantities("extended", r.Extended, n.Status.Allocatable)
	n.Status.Capacity = n.Status.Allocatable.DeepCopy()
	o.quantities("capacity", r.Capacity, n.Status.Capacity)
	if r.GPUModel != "" {
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[kube.GPUModelLabel] = r.GPUModel
	}
	return n
}

// Unreadable counts a column that cannot be read.
func (o *Reader) Unreadable(column string) {
	if o.unreadable == nil {
		o.unreadable = map[string]int{}
	}
	o.unreadable[column]++
}

// Notes describes unreadable values.
func (o *Reader) Notes() (out []string) {
	for column, n := range o.unreadable {
		out = append(out, fmt.Sprintf("the column %s of %d rows cannot be read; they are played without it", column, n))
	}
	slices.Sort(out)
	return out
}

// read decodes a JSON column. If the column is empty or unreadable, it returns false and leaves into unchanged.
func read[T any](o *Reader, column, text string, into *T) bool {
	err := record.ReadColumn(text, into)
	if err != nil {
		o.Unreadable(column)
	}
	return text != "" && err == nil
}

// modelsOf returns the annotations of a pod that accepts only certain GPU models.
func modelsOf(r cluster.Resources, models []string) map[string]string {
	if len(models) == 0 {
		return nil
	}
	return kube.GPUAnnotations(r, models)
}

func apiVersion(kind string) string {
	switch kind {
	case "ReplicaSet", "StatefulSet", "DaemonSet":
		return "apps/v1"
	case "Job":
		return "batch/v1"
	}
	return "v1"
}

// quantities adds amounts to a list.
func (o *Reader) quantities(column, text string, to v1.ResourceList) {
	var all map[v1.ResourceName]string
	read(o, column, text, &all)
	for name, amount := range all {
		q, err := resource.ParseQuantity(amount)
		if err != nil || q.Sign() < 0 {
			o.Unreadable(column)
			continue
		}
		to[name] = q
	}
}

// ports reads a list of TCP/0.0.0.0/80.
func (o *Reader) ports(text string) (out []v1.ContainerPort) {
	var all []string
	read(o, "host_ports", text, &all)
	for _, x := range all {
		protocol, rest, _ := strings.Cut(x, "/")
		i := strings.LastIndexByte(rest, '/')
		n, err := strconv.ParseUint(rest[i+1:], 10, 16)
		if i < 0 || err != nil || n == 0 {
			o.Unreadable("host_ports")
			continue
		}
		out = append(out, v1.ContainerPort{Protocol: v1.Protocol(protocol), HostIP: rest[:i], HostPort: int32(n), ContainerPort: int32(n)})
	}
	return out
}
