package replay

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/workload/record"
)

// objects turns rows of a record into objects of Kubernetes' API. Pods that are equal in all that matters share
// their containers and the rest of their specs.
type objects struct {
	templates  map[record.Pod]*v1.Pod
	unreadable map[string]int // rows by the column that could not be read
}

func newObjects() *objects {
	return &objects{templates: map[record.Pod]*v1.Pod{}, unreadable: map[string]int{}}
}

// pod returns a pod that waits.
func (o *objects) pod(r *record.Pod) *v1.Pod {
	key := *r
	key.UID, key.Name, key.Images, key.Claims, key.Workload = "", "", "", "", ""
	key.Arrived, key.Bound, key.Ended, key.End, key.Node = 0, 0, 0, "", ""
	t := o.templates[key]
	if t == nil {
		t = o.template(&key)
		o.templates[key] = t
	}
	p := *t
	p.UID, p.Name, p.CreationTimestamp = types.UID(r.UID), r.Name, metav1.NewTime(time.UnixMilli(r.Arrived))
	return &p
}

// read decodes a JSON column. One that cannot be read counts as empty.
func (o *objects) read(column, text string, into any) bool {
	if text == "" {
		return false
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		o.unreadable[column]++
		return false
	}
	return true
}

func (o *objects) template(r *record.Pod) *v1.Pod {
	var models []string
	o.read("gpu_models", r.GPUModels, &models)
	amounts := cluster.Resources{MilliCPU: r.MilliCPU, Memory: r.Memory, GPU: r.GPU, GPUMilli: r.GPUMilli}
	requests := kube.NonzeroResourceList(amounts)
	o.quantities("extended", r.Extended, requests)
	limits := v1.ResourceList{}
	for name, q := range requests {
		if name != v1.ResourceCPU && name != v1.ResourceMemory {
			limits[name] = q // Kubernetes requires it
		}
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Annotations: modelsOf(amounts, models)}}
	p.Spec = v1.PodSpec{
		SchedulerName: v1.DefaultSchedulerName, Priority: &r.Priority, PriorityClassName: r.PriorityClass,
		Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: requests, Limits: limits}, Ports: o.ports(r.HostPorts)}},
	}
	o.read("labels", r.Labels, &p.Labels)
	o.read("node_selector", r.NodeSelector, &p.Spec.NodeSelector)
	o.read("tolerations", r.Tolerations, &p.Spec.Tolerations)
	o.read("topology_spread", r.Spread, &p.Spec.TopologySpreadConstraints)
	var affinity v1.Affinity
	if o.read("affinity", r.Affinity, &affinity) {
		p.Spec.Affinity = &affinity
	}
	if r.Preemption != "" {
		policy := v1.PreemptionPolicy(r.Preemption)
		p.Spec.PreemptionPolicy = &policy
	}
	if r.OwnerKind != "" {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion(r.OwnerKind), Kind: r.OwnerKind, Name: r.OwnerName, Controller: &yes}}
	} else if r.Daemon {
		p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: ""}
	}
	if _, err := framework.NewPodInfo(p); err != nil { // an affinity that no API server accepts
		o.unreadable["affinity"]++
		p.Spec.Affinity = nil
	}
	return p
}

// modelsOf returns the annotations of a pod that accepts certain models of GPUs.
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
func (o *objects) quantities(column, text string, to v1.ResourceList) {
	var all map[v1.ResourceName]string
	o.read(column, text, &all)
	for name, amount := range all {
		q, err := resource.ParseQuantity(amount)
		if err != nil || q.Sign() < 0 {
			o.unreadable[column]++
			continue
		}
		to[name] = q
	}
}

// ports reads a list of TCP/0.0.0.0/80.
func (o *objects) ports(text string) (out []v1.ContainerPort) {
	var all []string
	o.read("host_ports", text, &all)
	for _, x := range all {
		protocol, rest, _ := strings.Cut(x, "/")
		i := strings.LastIndexByte(rest, '/')
		n, err := strconv.ParseUint(rest[i+1:], 10, 16)
		if i < 0 || err != nil || n == 0 {
			o.unreadable["host_ports"]++
			continue
		}
		out = append(out, v1.ContainerPort{Protocol: v1.Protocol(protocol), HostIP: rest[:i], HostPort: int32(n), ContainerPort: int32(n)})
	}
	return out
}

// node returns a node in one of its states.
func (o *objects) node(r *record.Node) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.Name, UID: types.UID(r.Name)}, Spec: v1.NodeSpec{Unschedulable: r.Unschedulable}}
	o.read("labels", r.Labels, &n.Labels)
	o.read("taints", r.Taints, &n.Spec.Taints)
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

// notes says what could not be read.
func (o *objects) notes() (out []string) {
	for column, n := range o.unreadable {
		out = append(out, fmt.Sprintf("the column %s of %d rows cannot be read; they are played without it", column, n))
	}
	return out
}
