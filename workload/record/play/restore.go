package play

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/each"
	"gnnsched/workload"
	"gnnsched/workload/record"
)

// Reader restores objects, and counts the columns that it cannot read. What cannot be read counts as empty. The zero
// value is ready to use.
type Reader struct {
	unreadable map[string]int // rows by the column
}

// Pod returns the pod of a row, without its node. It has one container with the pod's requests.
func (o *Reader) Pod(r *record.Pod) *corev1.Pod {
	var models []string
	read(o, "gpu_models", r.GPUModels, &models)
	amounts := cluster.Resources{MilliCPU: r.MilliCPU, Memory: r.Memory, GPU: r.GPU, GPUMilli: r.GPUMilli}
	if r.GPU > 0 {
		amounts.GPUMilli = 0
	}
	requests := kube.NonzeroResourceList(amounts)
	o.quantities("extended", r.Extended, requests)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		UID: types.UID(r.UID), Namespace: r.Namespace, Name: r.Name, CreationTimestamp: metav1.NewTime(time.UnixMilli(r.Arrived)),
		Annotations: modelsOf(amounts, models),
	}}
	p.Spec = corev1.PodSpec{
		SchedulerName: corev1.DefaultSchedulerName, Priority: &r.Priority, PriorityClassName: r.PriorityClass,
		Containers: []corev1.Container{{
			Name: "main", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits(r, requests)}, Ports: o.ports(r.HostPorts),
		}},
	}
	read(o, "labels", r.Labels, &p.Labels)
	read(o, "node_selector", r.NodeSelector, &p.Spec.NodeSelector)
	read(o, "tolerations", r.Tolerations, &p.Spec.Tolerations)
	read(o, "topology_spread", r.Spread, &p.Spec.TopologySpreadConstraints)
	var affinity corev1.Affinity
	if read(o, "affinity", r.Affinity, &affinity) {
		p.Spec.Affinity = &affinity
	}
	if r.Preemption != "" {
		p.Spec.PreemptionPolicy = new(corev1.PreemptionPolicy(r.Preemption))
	}
	if r.OwnerKind != "" {
		owner := metav1.OwnerReference{APIVersion: apiVersion(r.OwnerKind), Kind: r.OwnerKind, Name: r.OwnerName, Controller: new(true)}
		p.OwnerReferences = []metav1.OwnerReference{owner}
	} else if r.Daemon {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, corev1.MirrorPodAnnotationKey, "")
	}
	return p
}

// limits returns the limits of CPU and memory that Kubernetes accepts beside the requests, and the limits of all other
// resources, which must be the requests.
func limits(r *record.Pod, requests corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range requests {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
			out[name] = q
		}
	}
	if r.CPULimit > 0 && r.CPULimit >= r.MilliCPU {
		out[corev1.ResourceCPU] = *resource.NewMilliQuantity(r.CPULimit, resource.DecimalSI)
	}
	if r.MemoryLimit > 0 && r.MemoryLimit >= r.Memory {
		out[corev1.ResourceMemory] = *resource.NewQuantity(r.MemoryLimit, resource.BinarySI)
	}
	return out
}

// Labels returns the labels of a row of the table objects, which is a Namespace.
func (o *Reader) Labels(r *record.Object) (out map[string]string) {
	read(o, "spec", r.Spec, &out)
	return out
}

// Node returns a node in one of its states.
func (o *Reader) Node(r *record.Node) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.Name, UID: types.UID(r.Name)}}
	n.Spec.Unschedulable = r.Unschedulable
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
func (o *Reader) quantities(column, text string, to corev1.ResourceList) {
	var all map[corev1.ResourceName]string
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
func (o *Reader) ports(text string) (out []corev1.ContainerPort) {
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
		port := int32(n)
		out = append(out, corev1.ContainerPort{Protocol: corev1.Protocol(protocol), HostIP: rest[:i], HostPort: port, ContainerPort: port})
	}
	return out
}

// Machine is a node of a record, without pods. Its name is a DNS label of 60 characters at most.
type Machine struct {
	*cluster.Node
	Extended corev1.ResourceList // its capacity besides CPU, memory, pods and GPUs
}

// conditions begins the keys of the taints with which Kubernetes marks nodes that are cordoned or have a fault.
const conditions = "node.kubernetes.io/"

// Machines returns the nodes of a record at a time, and notes about omissions. Nodes that took no pods then, because they were cordoned,
// not ready or offered nothing, are left out.
func Machines(m record.Moment) ([]Machine, []string, error) {
	r, err := record.Open(m.Dir)
	if err != nil {
		return nil, nil, err
	}
	rows, err := r.NodesAt(m.At)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", m.Dir, err)
	}
	var out []Machine
	taken, closed := map[string]bool{}, 0
	for i := range rows {
		one, open, err := machine(&rows[i])
		if err != nil {
			return nil, nil, fmt.Errorf("%s: node %q: %w", m.Dir, rows[i].Name, err)
		}
		if !open {
			closed++
			continue
		}
		one.Name = workload.FreeName(label(rows[i].Name, "node"), taken)
		taken[one.Name] = true
		out = append(out, one)
	}
	notes := damage(r)
	if closed > 0 {
		notes = append(notes, fmt.Sprintf("%d nodes that took no pods at that time are left out", closed))
	}
	if len(out) == 0 {
		return nil, nil, fmt.Errorf("%s: none of the %d nodes took pods at that time", m.Dir, len(rows))
	}
	return out, notes, nil
}

// SimulatedName returns the name that a node of a record has in a cluster of `kwokcluster up --pools RECORD`, if no other
// node's name becomes the same label.
func SimulatedName(node string) string {
	if node == "" {
		return ""
	}
	return label(node, "node") + "-0" // a pool of one node
}

// machine translates a node. open tells whether it took pods.
func machine(row *record.Node) (out Machine, open bool, err error) {
	var taints []corev1.Taint
	var labels, extended map[string]string
	if err := errors.Join(decode("labels", row.Labels, &labels), decode("taints", row.Taints, &taints),
		decode("extended", row.Extended, &extended)); err != nil {
		return Machine{}, false, err
	}
	n := &cluster.Node{
		Version: cluster.NextVersion(), Labels: labels, Zone: labels[corev1.LabelTopologyZone], GPUModel: row.GPUModel,
		Allocatable: cluster.Resources{MilliCPU: row.MilliCPU, Memory: row.Memory, Pods: row.Pods, GPU: row.GPU},
	}
	open = !row.Unschedulable && row.MilliCPU > 0 && row.Memory > 0 && row.Pods > 0
	for _, t := range taints {
		if strings.HasPrefix(t.Key, conditions) {
			open = open && t.Effect == corev1.TaintEffectPreferNoSchedule
			continue
		}
		n.Taints = append(n.Taints, cluster.Taint{Key: t.Key, Value: t.Value, Effect: cluster.Effect(t.Effect)})
	}
	out = Machine{Node: n, Extended: make(corev1.ResourceList, len(extended))}
	for name, amount := range maps.All(extended) {
		q, err := resource.ParseQuantity(amount)
		if err != nil {
			return Machine{}, false, fmt.Errorf("extended: %s: %q is no amount", name, amount)
		}
		if !strings.HasPrefix(name, corev1.ResourceAttachableVolumesPrefix) { // the scheduler counts volumes by CSINodes now
			out.Extended[corev1.ResourceName(name)] = q
		}
	}
	return out, open, nil
}

// damage describes the parts of a record that were left out.
func damage(r *record.Record) []string {
	return each.Map(r.Damaged(), func(d string) string { return "a part of the record is damaged and left out: " + d })
}
