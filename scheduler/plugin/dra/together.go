package dra

import (
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
// are, as the pod's constraints demand. To policies all idle cards of a node are equal. It returns on if the pod asks for other things, or
// if the drivers do not say where their devices are. taken returns what pods without claims use, in thousandths of each card.
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
	best, spans := cluster.Nearest(levels, from, k, on)
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

// alternatives returns the idle cards of the driver, pool and model of on that offer a whole device to each want; none if on has several of
// those.
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

// levels returns, for each attribute of the cards' location, its value for each card. The attributes in must come first, then those that
// say where k cards are near each other, from the widest to the narrowest, without those that no card has.
func (s *shape) levels(must []string, k int) (out [][]string) {
	for _, name := range must {
		out = append(out, s.Values(name))
	}
	for _, names := range [][]string{
		{"partition" + strconv.Itoa(k)}, {deviceattribute.StandardDeviceAttributePrefix + "numaNode", "numaNode"},
		{string(deviceattribute.StandardDeviceAttributePCIeRoot)},
	} {
		for _, name := range names {
			if values := s.Values(name); strings.Join(values, "") != "" {
				out = append(out, values)
				break
			}
		}
	}
	return out
}
