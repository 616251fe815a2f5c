package nodepool

import (
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// Single returns a pool of one node for each given node, with its capacity, GPUs and GPU model.
// The nodes' names get "-0" behind them, so their order by name stays the same.
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
