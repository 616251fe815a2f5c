package live

import (
	"context"
	"fmt"
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

// pools returns a file of node pools for kwokcluster, one pool of one node for each node.
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

// devicesInUse returns the allocated fraction of the GPU capacity, or nil without GPUs.
func devicesInUse(nodes []*cluster.Node) *sim.GPUOutcome {
	var used, all int64
	for _, n := range nodes {
		if n.Available() {
			used += n.Requested.TotalGPUMilli()
			all += n.Allocatable.TotalGPUMilli()
		}
	}
	if all == 0 {
		return nil
	}
	return &sim.GPUOutcome{Allocation: cluster.Fraction(used, all)}
}

// snapshot reads the cluster from the API server. Nodes have their names in the simulator and are
// sorted by them. unbound is the number of pods without a node.
func snapshot(ctx context.Context, client kubernetes.Interface) (out []*cluster.Node, unbound int, err error) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("list the nodes: %w", err)
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("list the pods: %w", err)
	}
	all, unbound, err := kube.Snapshot(nodes.Items, pods.Items)
	for _, n := range all.Nodes {
		n.Name = poolName(n.Name)
	}
	slices.SortFunc(all.Nodes, func(a, b *cluster.Node) int { return strings.Compare(a.Name, b.Name) })
	return all.Nodes, unbound, err
}

// onlyNode is the suffix that kwokcluster appends to the name of a pool's first node.
const onlyNode = "-0"

// nodeName returns the name of the node in a pool of one node.
func nodeName(pool string) string { return pool + onlyNode }

// poolName returns the name of the pool whose only node has a name.
func poolName(node string) string { return strings.TrimSuffix(node, onlyNode) }
