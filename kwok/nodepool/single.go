package nodepool

import (
	"maps"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// Offer is a way in which nodes offer their GPUs.
type Offer string

const (
	InCapacity Offer = "capacity" // as resources of the node, to pods with annotations
	InSlices   Offer = "slices"   // in ResourceSlices, to claims
	InBoth     Offer = "both"     // the same GPUs in both ways
	InTurns    Offer = "turns"    // by turns: the first node with GPUs in both ways, the next one in slices
)

// Offers are all ways to offer GPUs.
var Offers = []Offer{InCapacity, InSlices, InBoth, InTurns}

// sharesOfDevice is the number of shares of a device in a slice: claims count in thousandths, as annotations do.
const sharesOfDevice = cluster.DeviceMilli

// Single returns a pool of one node for each given node, with the node's capacity, GPUs, GPU model, labels and
// taints. Labels that kwokcluster sets itself are left out. The simulated nodes have "-0" behind their names, which
// keeps their order by name.
func Single(nodes []*cluster.Node, gpus Offer) []Pool {
	pools := make([]Pool, len(nodes))
	turn := InBoth
	for i, n := range nodes {
		offer := gpus
		if gpus == InTurns && n.Allocatable.GPU > 0 {
			if offer = turn; turn == InBoth {
				turn = InSlices
			} else {
				turn = InBoth
			}
		}
		offered := n.Allocatable
		if offer == InSlices {
			offered.GPU = 0
		}
		p := Pool{Name: n.Name, Count: 1, Capacity: kube.Capacity(offered), Taints: kube.Taints(n.Taints)}
		if offer != InCapacity && n.Allocatable.GPU > 0 {
			p.Devices = []Devices{{Product: n.GPUModel, Count: int(n.Allocatable.GPU), Shares: sharesOfDevice}}
		}
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
		pools[i] = p
	}
	return pools
}
