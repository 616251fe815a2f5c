package agreement

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
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
		pool := map[string]any{"name": n.Name, "count": 1, "capacity": kube.Capacity(n.Allocatable)}
		labels := kube.NodeLabels(n)
		delete(labels, corev1.LabelTopologyZone) // the pool has a field for it
		if n.Zone != "" {
			pool["zone"] = n.Zone
		}
		if len(labels) > 0 {
			pool["labels"] = labels
		}
		taints := kube.Taints(n.Taints)
		if len(taints) > 0 {
			pool["taints"] = taints
		}
		list[i] = pool
	}
	return yaml.Marshal(map[string]any{"pools": list})
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

// snapshot reads the cluster from the API server, with the nodes under their names in the simulator
// and sorted by them. unbound is the number of pods without a node.
func snapshot(ctx context.Context, client kubernetes.Interface) (nodes []*cluster.Node, unbound int, err error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("list the nodes: %w", err)
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("list the pods: %w", err)
	}
	snapshot, unbound, err := kube.Snapshot(list.Items, pods.Items)
	if err != nil {
		return nil, 0, err
	}
	for _, n := range snapshot.Nodes {
		n.Name = simulatedName(n.Name)
	}
	slices.SortFunc(snapshot.Nodes, func(a, b *cluster.Node) int { return strings.Compare(a.Name, b.Name) })
	return snapshot.Nodes, unbound, nil
}
