package live

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
	"sigs.k8s.io/yaml"

	"gnnsched/scheduler/cluster"
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
		pool := map[string]any{"name": n.Name, "count": 1, "capacity": map[string]any{
			"cpu": resource.NewMilliQuantity(n.Allocatable.MilliCPU, resource.DecimalSI), "memory": resource.NewQuantity(n.Allocatable.Memory, resource.BinarySI),
			"pods": resource.NewQuantity(n.Allocatable.Pods, resource.DecimalSI),
		}}
		if n.Allocatable.GPU > 0 {
			return nil, fmt.Errorf("node %s has GPUs, which no workload here asks for", n.Name)
		}
		if n.Zone != "" {
			pool["zone"] = n.Zone
		}
		labels := maps.Clone(n.Labels)
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

func requests(r cluster.Resources) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(r.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(r.Memory, resource.BinarySI),
	}
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
	at := map[string]*cluster.Node{}
	for _, n := range list.Items {
		a := n.Status.Allocatable
		v := &cluster.Node{
			Name: simulatedName(n.Name), Zone: n.Labels[corev1.LabelTopologyZone], Unschedulable: n.Spec.Unschedulable,
			Allocatable: cluster.Resources{MilliCPU: a.Cpu().MilliValue(), Memory: a.Memory().Value(), Pods: a.Pods().Value()},
		}
		for _, t := range n.Spec.Taints {
			v.Taints = append(v.Taints, cluster.Taint{Key: t.Key, Value: t.Value, Effect: cluster.Effect(t.Effect)})
		}
		at[n.Name] = v
		nodes = append(nodes, v)
	}
	slices.SortFunc(nodes, func(a, b *cluster.Node) int { return strings.Compare(a.Name, b.Name) })
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("list the pods: %w", err)
	}
	for _, p := range pods.Items {
		n, bound := at[p.Spec.NodeName]
		if !bound {
			unbound++
			continue
		}
		r := cluster.Resources{Pods: 1}
		for _, c := range p.Spec.Containers {
			r.MilliCPU += c.Resources.Requests.Cpu().MilliValue()
			r.Memory += c.Resources.Requests.Memory().Value()
		}
		n.Add(r)
	}
	return nodes, unbound, nil
}
