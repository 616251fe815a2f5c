package nodepool

import (
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// Single returns a pool of one node for each given node, with the node's capacity, GPUs and GPU
// model. The simulated nodes have "-0" behind their names, which keeps their order by name.
func Single(nodes []*cluster.Node) []Pool {
	pools := make([]Pool, len(nodes))
	for i, n := range nodes {
		pools[i] = Pool{Name: n.Name, Count: 1, Capacity: kube.Capacity(n.Allocatable)}
		if n.Allocatable.GPU > 0 {
			pools[i].Labels = map[string]string{kube.GPUModelLabel: n.GPUModel}
		}
	}
	return pools
}
