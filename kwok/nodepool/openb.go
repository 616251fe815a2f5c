package nodepool

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/internal/cluster/kube"
	"gnnsched/workload/trace/openb"
)

// OpenB returns the machines of an openb node list as pools of one node each, so that their
// order by name is the list's. Devices and models are in the words of package gpushare.
func OpenB(nodes []openb.Node) []Pool {
	pools := make([]Pool, len(nodes))
	for i, n := range nodes {
		offers := n.Allocatable()
		capacity := corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(offers.MilliCPU, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(offers.Memory, resource.BinarySI),
			corev1.ResourcePods:   *resource.NewQuantity(offers.Pods, resource.DecimalSI),
		}
		pools[i] = Pool{Name: n.Name, Count: 1, Capacity: capacity}
		if n.GPUs > 0 {
			kube.Offer(capacity, n.GPUs)
			pools[i].Labels = map[string]string{kube.Model: n.Model}
		}
	}
	return pools
}
