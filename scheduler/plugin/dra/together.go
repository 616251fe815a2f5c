package dra

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"gnnsched/internal/cluster"
)

// matching holds the attributes that all devices of a pod must have in common.
type matching struct {
	attributes []string
	unknown    bool // there are constraints of other kinds, or on some of the requests only
}

// add adds the constraints of a claim whose wants are those from index first.
func (m *matching) add(wants []want, first int, constraints []resourceapi.DeviceConstraint) {
	if len(wants) == first {
		return
	}
	if first > 0 && len(m.attributes) > 0 { // those of one claim do not bind another's devices
		m.unknown = true
	}
	for _, c := range constraints {
		covers := len(c.Requests) == 0 || !slices.ContainsFunc(wants[first:], func(w want) bool {
			parent, _, _ := strings.Cut(w.request, "/")
			return !slices.Contains(c.Requests, w.request) && !slices.Contains(c.Requests, parent)
		})
		if c.MatchAttribute == nil || !covers || first > 0 {
			m.unknown = true
			continue
		}
		m.attributes = append(m.attributes, string(*c.MatchAttribute))
	}
}

// together returns idle cards to take in place of on, which a policy chose for whole devices: as many, as near to each other as there
// are, as the pod's constraints demand. To policies all idle cards of a node are equal. It returns on if the pod asks for other things, or if
// the drivers do not say where their devices are. taken returns what pods without claims use, in thousandths of each card.
func (a *Ask) together(ctx context.Context, n *Node, on cluster.DeviceSet, taken func() []int64) cluster.DeviceSet {
	k := on.Len()
	if k < 2 || a.match.unknown || !a.whole(k) {
		return on
	}
	levels := n.shape.levels(a.match.attributes, k)
	if len(levels) == 0 {
		return on
	}
	from := a.alternatives(ctx, n, on)
	for i, t := range taken() {
		if t > 0 && i < len(n.used) {
			from &^= cluster.Device(i)
		}
	}
	for _, values := range levels[:len(a.match.attributes)] {
		for i, v := range values {
			if v == "" {
				from &^= cluster.Device(i)
			}
		}
	}
	if from.Len() < k || len(a.match.attributes) == 0 && on&^from != 0 {
		return on
	}
	best, spans := pick(levels, from, k, on)
	for _, groups := range spans[:len(a.match.attributes)] {
		if groups != 1 {
			return on // upstream finds out whether there are other devices that match
		}
	}
	return best
}

// whole reports whether the pod asks for k whole cards and nothing else.
func (a *Ask) whole(k int) bool {
	sum := int64(0)
	for i, w := range a.wants {
		if a.sizes[i] < cluster.DeviceMilli {
			return false
		}
		sum += w.count
	}
	return sum == int64(k)
}

// alternatives returns the idle cards of the driver, pool and model of on that offer a whole device to each want; none if on has several of those.
func (a *Ask) alternatives(ctx context.Context, n *Node, on cluster.DeviceSet) (from cluster.DeviceSet) {
	models := n.shape.Models()
	like := bits.TrailingZeros64(uint64(on))
	same := func(i int) bool {
		c, l := &n.shape.Cards[i], &n.shape.Cards[like]
		return c.Driver == l.Driver && c.Pool == l.Pool && models[i] == models[like]
	}
	for i := range n.shape.Cards {
		if on.Has(i) && !same(i) {
			return 0
		}
		if n.used[i] == 0 && same(i) {
			from |= cluster.Device(i)
		}
	}
	for _, w := range a.wants {
		offers := cluster.DeviceSet(0)
		parts := n.shape.partsOf(w.capacity)
		for i, ok := range a.satisfying(ctx, n.shape, w) {
			if d := &n.shape.Devices[i]; ok && n.room(i, parts.at(i)) && sizeOf(d, parts.at(i)) >= cluster.DeviceMilli {
				offers |= cluster.Device(d.Card)
			}
		}
		from &= offers
	}
	return from
}

// levels returns the values of the attributes that say where the cards are, by card: first those that must be equal, then
// from the widest to the narrowest. Attributes that no card has are left out, but for those that must be equal.
func (s *shape) levels(must []string, k int) (out [][]string) {
	for _, name := range must {
		out = append(out, s.Values(name))
	}
	add := func(names ...string) {
		for _, name := range names {
			values := s.Values(name)
			if slices.ContainsFunc(values, func(v string) bool { return v != "" }) {
				out = append(out, values)
				return
			}
		}
	}
	add("partition" + strconv.Itoa(k)) // of NVIDIA's fabric manager: the GPUs that k at a time reach each other by NVLink
	add(deviceattribute.StandardDeviceAttributePrefix+"numaNode", "numaNode")
	add(string(deviceattribute.StandardDeviceAttributePCIeRoot))
	return out
}

// pick returns k of the given cards that lie in as few groups as possible at the first level, then at the next, and so on, and
// the number of groups at each level. Of equally good groups it takes those with the fewest cards, so that larger ones stay whole, and
// then those with more of the cards of keep. from has k cards or more.
func pick(levels [][]string, from cluster.DeviceSet, k int, keep cluster.DeviceSet) (on cluster.DeviceSet, spans []int) {
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
			next.on, next.spans = pick(levels[1:], group, min(k, next.size), keep)
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

// part is what one group gives to a pod.
type part struct {
	on    cluster.DeviceSet
	spans []int // groups at each further level
	size  int   // cards of the group
	fits  bool  // the group has as many cards as are still needed
	kept  int   // cards of on that were chosen before
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

// groups returns the cards of from with equal values, in the order of the first card of each.
func groups(values []string, from cluster.DeviceSet) (out []cluster.DeviceSet) {
	at := map[string]int{}
	for rest := from; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(uint64(rest))
		g, known := at[values[i]]
		if !known {
			g = len(out)
			at[values[i]] = g
			out = append(out, 0)
		}
		out[g] |= cluster.Device(i)
	}
	return out
}

// lowest returns the n first cards of a set, or all if there are fewer.
func lowest(from cluster.DeviceSet, n int) (on cluster.DeviceSet) {
	for ; n > 0 && from != 0; n-- {
		on |= from & -from
		from &= from - 1
	}
	return on
}
