package encode

import (
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/fragmentation"
)

// placed is memory for a node after a placement.
type placed struct {
	node   cluster.Node
	gpus   [cluster.MaxDevices]int64
	slices [cluster.MaxDevices]mig.Slices
}

// Placed returns what the layout shows of n once a pod that requests r runs there on the given devices, and what is left to add to it: r
// without GPUs. In a layout with partitions, each GPU that has free memory slices is in use by the thousandths that these
// slices are, whatever n says: a GPU on which the pending pod finds no place is shown as full. A partition starts where most placements
// stay free; a whole GPU, and a share that is no profile's, takes all slices. In other layouts, and without such GPUs, Placed returns its
// arguments. The node is valid until the next call.
func (e *GPUNodeEncoder) Placed(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) (*cluster.Node, cluster.Resources, cluster.DeviceSet) {
	if !e.layout.Partitions || len(n.Slices) == 0 || &n.Slices[0] == &e.placed.slices[0] {
		return n, r, on
	}
	_, milli := fragmentation.Devices(r)
	p := &e.placed
	p.node = *n
	p.node.GPUs, p.node.Slices = append(p.gpus[:0], n.GPUs...), append(p.slices[:0], n.Slices...)
	for i := range p.node.GPUs {
		takes := on.Has(i)
		if takes {
			p.node.GPUs[i] = min(n.GPUs[i]+milli, cluster.DeviceMilli)
		}
		if i >= len(n.Slices) || n.Slices[i] == mig.All {
			continue
		}
		used := &p.node.Slices[i]
		if takes {
			*used |= lies(mig.OfMilli(milli), *used)
		}
		if *used != mig.All {
			p.node.GPUs[i] = mig.Used(used.Computing(), used.Len())
		}
	}
	r.GPU, r.GPUMilli = 0, 0
	return &p.node, r, on
}

// lies returns the memory slices that a partition of a profile takes beside the used ones.
func lies(p mig.Profile, used mig.Slices) mig.Slices {
	if p != mig.None {
		if start := p.BestStart(used); start >= 0 {
			return p.On(start)
		}
	}
	return mig.All
}
