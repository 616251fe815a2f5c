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

// Placed returns n as the layout shows it after a pod that requests r was placed on the given devices, and the rest of r still to add: r
// without GPUs. In a layout with partitions, a GPU with free memory slices counts as used by the thousandths of its used slices, even if n
// shows it as full because the pending pod finds no place on it. A partition starts where most placements stay free; a whole GPU, and a
// share that matches no profile, takes all slices. In other layouts, and without such GPUs, Placed returns its arguments. The node is valid
// until the next call.
func (e *Stars) Placed(
	n *cluster.Node, r cluster.Resources, on cluster.DeviceSet,
) (*cluster.Node, cluster.Resources, cluster.DeviceSet) {
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
