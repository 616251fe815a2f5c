package dra

import (
	"maps"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/cards"
)

// hide returns the slices without what pods without claims use of their cards, by node and in thousandths: a device that
// is given out whole, and the partitions of a card, are missing, and one that is shared has less capacity. It changes none of the
// slices passed.
func hide(all []*resourceapi.ResourceSlice, view *View, taken map[string][]int64) []*resourceapi.ResourceSlice {
	if len(taken) == 0 {
		return all
	}
	out := make([]*resourceapi.ResourceSlice, len(all))
	for i, s := range all {
		out[i] = s
		if !cards.OfNode(s) {
			continue
		}
		if n, used := view.Node(*s.Spec.NodeName), taken[*s.Spec.NodeName]; n != nil && used != nil {
			out[i] = n.without(s, used)
		}
	}
	return out
}

// without returns a slice of the node without what is used of its cards.
func (n *Node) without(s *resourceapi.ResourceSlice, used []int64) *resourceapi.ResourceSlice {
	on := map[string]int{}
	for _, d := range n.shape.Devices {
		if c := n.shape.Cards[d.Card]; c.Driver == s.Spec.Driver && c.Pool == s.Spec.Pool.Name {
			on[d.Name] = d.Card
		}
	}
	c := *s
	c.Spec.Devices = make([]resourceapi.Device, 0, len(s.Spec.Devices))
	for _, d := range s.Spec.Devices {
		card, known := on[d.Name]
		switch {
		case !known || card >= len(used) || used[card] == 0:
		case d.AllowMultipleAllocations == nil || !*d.AllowMultipleAllocations, len(d.ConsumesCounters) > 0, used[card] >= cluster.DeviceMilli:
			continue
		default:
			d.Capacity = lessened(d.Capacity, used[card])
		}
		c.Spec.Devices = append(c.Spec.Devices, d)
	}
	return &c
}

// lessened returns the capacities without the given thousandths of each.
func lessened(capacity map[resourceapi.QualifiedName]resourceapi.DeviceCapacity,
	milli int64) map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	out := maps.Clone(capacity)
	for name, c := range out {
		left := c.Value.AsApproximateFloat64() * float64(cluster.DeviceMilli-milli) / cluster.DeviceMilli
		c.Value = *resource.NewMilliQuantity(int64(left*1000), c.Value.Format)
		out[name] = c
	}
	return out
}
