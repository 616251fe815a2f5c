package nodepool

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// Single returns a pool of one node for each given node, with the node's capacity, GPUs, GPU model, labels and
// taints. Labels that kwokcluster sets itself are left out. The simulated nodes have "-0" behind their names, which
// keeps their order by name.
func Single(nodes []*cluster.Node) []Pool {
	pools := make([]Pool, len(nodes))
	for i, n := range nodes {
		p := Pool{Name: n.Name, Count: 1, Capacity: kube.Capacity(n.Allocatable)}
		if len(n.Labels) > 0 || n.Allocatable.GPU > 0 {
			p.Labels = make(map[string]string, len(n.Labels)+1)
		}
		for k, v := range maps.All(n.Labels) {
			if !reserved[k] {
				p.Labels[k] = v
			}
		}
		if n.Allocatable.GPU > 0 && n.GPUModel != "" {
			p.Labels[kube.GPUModelLabel] = n.GPUModel
		}
		for _, t := range n.Taints {
			p.Taints = append(p.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
		}
		pools[i] = p
	}
	return pools
}
