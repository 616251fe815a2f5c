package nodepool

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// Single returns a pool of one node for each given node, with its capacity, GPUs and GPU model.
// The nodes' names get "-0" behind them, so their order by name stays the same.
func Single(nodes []*cluster.Node) []Pool {
	pools := make([]Pool, len(nodes))
	for i, n := range nodes {
		offers := n.Allocatable
		capacity := corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(offers.MilliCPU, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(offers.Memory, resource.BinarySI),
			corev1.ResourcePods:   *resource.NewQuantity(offers.Pods, resource.DecimalSI),
		}
		pools[i] = Pool{Name: n.Name, Count: 1, Capacity: capacity}
		if offers.GPU > 0 {
			kube.Offer(capacity, offers.GPU)
			pools[i].Labels = map[string]string{kube.Model: n.GPUModel}
		}
	}
	return pools
}
