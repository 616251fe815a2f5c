package agreement

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	podresource "k8s.io/component-helpers/resource"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/sim"
)

// kwokcluster numbers the nodes of a pool, and every node here is a pool of its own.
const numbered = "-0"

func nodeName(simulated string) string { return simulated + numbered }

func simulatedName(node string) string { return strings.TrimSuffix(node, numbered) }

func isForever(a sim.Arrival) bool { return math.IsInf(a.Lifetime, 1) }

// pools is the file of node pools with which kwokcluster makes the nodes of an episode.
func pools(nodes []*cluster.Node) ([]byte, error) {
	list := make([]map[string]any, len(nodes))
	for i, n := range nodes {
		capacity := corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(n.Allocatable.MilliCPU, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(n.Allocatable.Memory, resource.BinarySI),
			corev1.ResourcePods:   *resource.NewQuantity(n.Allocatable.Pods, resource.DecimalSI),
		}
		labels := maps.Clone(n.Labels)
		if n.Allocatable.GPU > 0 {
			kube.Offer(capacity, n.Allocatable.GPU)
		}
		if n.GPUModel != "" {
			if labels == nil {
				labels = map[string]string{}
			}
			labels[kube.Model] = n.GPUModel
		}
		pool := map[string]any{"name": n.Name, "count": 1, "capacity": capacity}
		if n.Zone != "" {
			pool["zone"] = n.Zone
		}
		delete(labels, corev1.LabelTopologyZone) // it is what zone says
		if len(labels) > 0 {
			pool["labels"] = labels
		}
		var taints []map[string]string
		for _, t := range n.Taints {
			taints = append(taints, map[string]string{"key": t.Key, "value": t.Value, "effect": string(t.Effect)})
		}
		if len(taints) > 0 {
			pool["taints"] = taints
		}
		list[i] = pool
	}
	return yaml.Marshal(map[string]any{"pools": list})
}

// requests are what a pod asks for, GPUs in the words of package gpushare.
func requests(p *cluster.Pod) (annotations map[string]string, list corev1.ResourceList) {
	annotations, gpus := kube.Describe(p.Requests, p.GPUModels)
	list = corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(p.Requests.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(p.Requests.Memory, resource.BinarySI),
	}
	maps.Copy(list, gpus)
	return annotations, list
}

// limits are those of extended resources, of which Kubernetes wants as much as is requested.
func limits(requests corev1.ResourceList) corev1.ResourceList {
	out := maps.Clone(requests)
	delete(out, corev1.ResourceCPU)
	delete(out, corev1.ResourceMemory)
	return out
}

// idle tells whether devices of a node are as many as a pod asks for, with room for it.
func idle(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) bool {
	want, each := r.GPU, int64(cluster.DeviceMilli)
	if r.GPUMilli > 0 {
		want, each = 1, r.GPUMilli
	}
	for i, used := range n.GPUs {
		if on.Has(i) && used+each <= cluster.DeviceMilli {
			want--
		}
	}
	return want == 0 && int64(on.Len()) == max(r.GPU, min(r.GPUMilli, 1))
}

// devicesInUse is how much of the GPUs is given away; nil where there are none.
func devicesInUse(nodes []*cluster.Node) *sim.GPUOutcome {
	var used, all int64
	for _, n := range nodes {
		if n.Available() {
			used, all = used+n.Requested.TotalGPUMilli(), all+n.Allocatable.TotalGPUMilli()
		}
	}
	if all == 0 {
		return nil
	}
	return &sim.GPUOutcome{Allocation: cluster.Fraction(used, all)}
}

func tolerations(list []cluster.Toleration) []corev1.Toleration {
	var out []corev1.Toleration
	for _, t := range list {
		x := corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpEqual, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
		if t.Exists {
			x.Operator = corev1.TolerationOpExists
		}
		out = append(out, x)
	}
	return out
}

// snapshot is the cluster as the API server has it, and how many pods have no node.
func snapshot(ctx context.Context, client kubernetes.Interface) (nodes []*cluster.Node, unbound int, err error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("list the nodes: %w", err)
	}
	at, running := map[string]*cluster.Node{}, map[string][]kube.Running{}
	for _, n := range list.Items {
		a := n.Status.Allocatable
		v := &cluster.Node{
			Name: simulatedName(n.Name), Zone: n.Labels[corev1.LabelTopologyZone], Unschedulable: n.Spec.Unschedulable,
			Allocatable: cluster.Resources{MilliCPU: a.Cpu().MilliValue(), Memory: a.Memory().Value(), Pods: a.Pods().Value()},
		}
		for _, t := range n.Spec.Taints {
			v.Taints = append(v.Taints, cluster.Taint{Key: t.Key, Value: t.Value, Effect: cluster.Effect(t.Effect)})
		}
		kube.SetDevices(v, n.Labels, kube.In(a))
		at[n.Name] = v
		nodes = append(nodes, v)
	}
	slices.SortFunc(nodes, func(a, b *cluster.Node) int { return strings.Compare(a.Name, b.Name) })
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("list the pods: %w", err)
	}
	for _, p := range pods.Items {
		if at[p.Spec.NodeName] == nil {
			unbound++
			continue
		}
		list := podresource.PodRequests(&p, podresource.PodResourcesOptions{})
		gpus, err := kube.OfPod(p.Annotations, kube.In(list))
		if err != nil {
			return nil, 0, fmt.Errorf("pod %s: %w", p.Name, err)
		}
		running[p.Spec.NodeName] = append(running[p.Spec.NodeName], kube.Running{On: kube.Devices(p.Annotations), Requests: cluster.Resources{
			MilliCPU: list.Cpu().MilliValue(), Memory: list.Memory().Value(), GPU: gpus.GPU, GPUMilli: gpus.GPUMilli, Pods: 1,
		}})
	}
	for name, list := range running {
		kube.Place(at[name], list)
	}
	return nodes, unbound, nil
}
