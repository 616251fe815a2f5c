package cluster

import (
	"cmp"
	"math/bits"
	"slices"
)

// Topology says where the devices of a node are, by device, as their driver publishes it; an empty value is not known. It must not be
// changed.
type Topology struct {
	NUMA, Roots []string         // NUMA nodes and PCIe roots; nil if no device has one
	Linked      map[int][]string // NVLink domains of this number of devices: NVIDIA's partitionN
}

// Levels returns the values that say where k devices are near each other, from the widest to the narrowest. It omits levels that no
// device has. t may be nil.
func (t *Topology) Levels(k int) (out [][]string) {
	if t == nil {
		return nil
	}
	for _, values := range [][]string{t.Linked[k], t.NUMA, t.Roots} {
		if values != nil {
			out = append(out, values)
		}
	}
	return out
}

// NearDevices returns the devices of ChooseDevices; for several whole devices it returns the idle ones nearest to each other by the node's
// topology.
func (n *Node) NearDevices(r Resources) DeviceSet {
	on := n.ChooseDevices(r)
	levels := n.Topology.Levels(int(r.GPU))
	if r.GPU < 2 || len(levels) == 0 {
		return on
	}
	var idle DeviceSet
	for i, used := range n.GPUs[:min(len(n.GPUs), len(levels[0]))] {
		if used == 0 {
			idle |= Device(i)
		}
	}
	if idle.Len() < int(r.GPU) {
		return on
	}
	near, _ := Nearest(levels, idle, int(r.GPU), on&idle)
	return near
}

// Groups returns the devices of a set by the values of a level. It omits devices that the level does not list.
func Groups(values []string, of DeviceSet) []DeviceSet {
	if len(values) < MaxDevices {
		of &= Device(len(values)) - 1
	}
	return groups(values, of)
}

// Nearest returns k of the given devices that lie in as few groups as possible at the first level, then at the next, and so on, and
// the number of groups at each level. Of equally good groups it takes those with the fewest devices, so that larger ones stay whole, and
// then those with more of the devices of keep. from has k devices or more.
func Nearest(levels [][]string, from DeviceSet, k int, keep DeviceSet) (on DeviceSet, spans []int) {
	if len(levels) == 0 {
		return lowest(from&^keep, k-min(k, (from&keep).Len())) | lowest(from&keep, k), nil
	}
	rest := groups(levels[0], from)
	spans = make([]int, len(levels))
	for k > 0 {
		best := 0
		var first part
		for i, group := range rest {
			next := part{size: group.Len(), fits: group.Len() >= k}
			next.on, next.spans = Nearest(levels[1:], group, min(k, next.size), keep)
			next.kept = (next.on & keep).Len()
			if i == 0 || next.before(first) {
				best, first = i, next
			}
		}
		on |= first.on
		k -= first.on.Len()
		spans[0]++
		for i, n := range first.spans {
			spans[i+1] += n
		}
		rest = slices.Delete(rest, best, best+1)
	}
	return on, spans
}

// part holds the cards that one group gives to a pod.
type part struct {
	on    DeviceSet
	spans []int // groups at each further level
	size  int   // devices of the group
	fits  bool  // the group has the devices that are still needed
	kept  int   // devices of on that were chosen before
}

// before reports whether p is a better part than q.
func (p part) before(q part) bool {
	if p.fits != q.fits {
		return p.fits
	}
	size := cmp.Compare(p.size, q.size)
	if !p.fits { // the largest groups make for the fewest
		return cmp.Or(-size, slices.Compare(p.spans, q.spans), cmp.Compare(q.kept, p.kept)) < 0
	}
	return cmp.Or(slices.Compare(p.spans, q.spans), size, cmp.Compare(q.kept, p.kept)) < 0
}

// groups returns the devices of from with equal values, in the order of the first device of each.
func groups(values []string, from DeviceSet) (out []DeviceSet) {
	at := map[string]int{}
	for rest := from; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(uint64(rest))
		g, known := at[values[i]]
		if !known {
			g = len(out)
			at[values[i]] = g
			out = append(out, 0)
		}
		out[g] |= Device(i)
	}
	return out
}

// lowest returns the n first devices of a set, or all if there are fewer.
func lowest(from DeviceSet, n int) (on DeviceSet) {
	for ; n > 0 && from != 0; n-- {
		on |= from & -from
		from &= from - 1
	}
	return on
}
