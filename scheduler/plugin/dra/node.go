package dra

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/cards"
	"gnnsched/internal/cluster/mig"
)

// Node holds what claims use of a node's cards in one state of the cluster. It never changes: equal pointers mean
// that nothing has changed.
type Node struct {
	shape  *shape
	used   []int64 // thousandths of each card
	busy   []bool  // devices that are allocated: whole, or to at least one claim that shares them
	shares []int64 // thousandths of each shared device that claims take

	slices []mig.Slices // used memory slices of each card, as in cluster.Node

	made []allocated // what the node was made of, by device; the ledger's lock guards it

	countOnce sync.Once
	fits      []bool // see countFits; nil if no card has counters
}

// allocated is the use of a device in a state.
type allocated struct {
	whole, shared bool
	shares        structured.ConsumedCapacity // sums of shares never change
}

func allocatedOf(state *structured.AllocatedState, id structured.DeviceID) allocated {
	taken, shared := state.AggregatedCapacity[id]
	return allocated{whole: state.AllocatedDevices.Has(id), shared: shared, shares: taken}
}

// same reports whether both are the same without counting.
func (a allocated) same(b allocated) bool {
	return a.whole == b.whole && a.shared == b.shared && reflect.ValueOf(a.shares).UnsafePointer() == reflect.ValueOf(b.shares).UnsafePointer()
}

// holds reports whether the node was made of the same allocations as state has.
func (n *Node) holds(state *structured.AllocatedState) bool {
	for i, id := range n.shape.ids {
		if !n.made[i].same(allocatedOf(state, id)) {
			return false
		}
	}
	return true
}

// newNode counts the allocations of state on the shape's cards.
func newNode(s *shape, state *structured.AllocatedState) *Node {
	n := &Node{shape: s, used: make([]int64, len(s.Cards)), busy: make([]bool, len(s.Devices)), shares: make([]int64, len(s.Devices)),
		made: make([]allocated, len(s.Devices))}
	var left []map[string]int64
	for i := range s.Devices {
		d := &s.Devices[i]
		has := allocatedOf(state, s.ids[i])
		n.made[i] = has
		switch {
		case has.shared:
			n.busy[i], n.shares[i] = true, sharesUsed(d.Device, has.shares)
			n.used[d.Card] += d.OfCard(n.shares[i])
		case !has.whole:
		case s.Cards[d.Card].Counters == nil:
			n.busy[i] = true
			n.used[d.Card] += d.Milli
		default:
			n.busy[i] = true
			if left == nil {
				left = make([]map[string]int64, len(s.Cards))
			}
			left[d.Card] = plus(left[d.Card], cards.Counters(d.ConsumesCounters[0].Counters))
		}
	}
	for i, taken := range left {
		n.used[i] += cards.Share(taken, s.Cards[i].Counters)
	}
	n.setSlices()
	return n
}

// equal reports whether the same is used of the same cards.
func (n *Node) equal(other *Node) bool {
	return slices.Equal(n.busy, other.busy) && slices.Equal(n.used, other.used) && slices.Equal(n.shares, other.shares)
}

// setSlices sets the used memory slices, if some card has MIG. What partitions with known profiles use of a card is the same with any
// driver's counters.
func (n *Node) setSlices() {
	if !slices.ContainsFunc(n.shape.Cards, func(c cards.Card) bool { return c.MIG }) {
		return
	}
	n.slices = make([]mig.Slices, len(n.shape.Cards))
	compute, other := make([]int, len(n.slices)), make([]bool, len(n.slices))
	for i, c := range n.shape.Cards {
		if !c.MIG {
			n.slices[i], other[i] = mig.All, true
		}
	}
	for i := range n.shape.Devices {
		d := &n.shape.Devices[i]
		if !n.busy[i] || !n.shape.Cards[d.Card].MIG {
			continue
		}
		n.slices[d.Card] |= d.Slices
		compute[d.Card] += d.Profile.Compute()
		other[d.Card] = other[d.Card] || d.Profile == mig.None || d.Shared()
	}
	for i := range n.used {
		if !other[i] {
			n.used[i] = mig.Used(compute[i], n.slices[i].Len())
		}
	}
}

// sharesUsed returns which part of a device its shares take, in thousandths.
func sharesUsed(d *resourceapi.Device, taken structured.ConsumedCapacity) (milli int64) {
	for name, q := range taken {
		whole := d.Capacity[name].Value
		milli = max(milli, cards.Thousandths(q.AsApproximateFloat64(), whole.AsApproximateFloat64()))
	}
	return milli
}

func plus(a, b map[string]int64) map[string]int64 {
	if a == nil {
		return b
	}
	for name, v := range b {
		a[name] += v
	}
	return a
}

// Others returns how much more than claims is used of each card, given all that is used of a node's devices; nil for
// nothing.
func (n *Node) Others(used []int64) (out []int64) {
	for i, u := range used[:min(len(used), len(n.used))] {
		if more := u - n.used[i]; more > 0 {
			if out == nil {
				out = make([]int64, len(n.used))
			}
			out[i] = min(more, cluster.DeviceMilli)
		}
	}
	return out
}

// room reports whether a want that takes a part of device i, in thousandths of it, can still get it. Of a device's capacities, only the one
// of which claims take most is looked at.
func (n *Node) room(i int, part int64) bool {
	if n.shape.Devices[i].Shared() {
		if n.shares[i]+part > cluster.DeviceMilli {
			return false
		}
	} else if n.busy[i] || part > cluster.DeviceMilli {
		return false
	}
	if n.busy[i] { // the first share of a partition took its counters
		return true
	}
	n.countOnce.Do(n.countFits)
	return n.fits == nil || n.fits[i]
}

// countFits sets which devices fit beside those that are busy, by the counters of their cards. Cards without counters have no such limit.
func (n *Node) countFits() {
	if !slices.ContainsFunc(n.shape.Cards, func(c cards.Card) bool { return c.Counters != nil }) {
		return
	}
	n.fits = make([]bool, len(n.shape.Devices))
	taken := make([]map[string]int64, len(n.shape.Cards))
	for i := range n.shape.Devices {
		if d := &n.shape.Devices[i]; n.busy[i] && n.shape.Cards[d.Card].Counters != nil {
			taken[d.Card] = plus(taken[d.Card], cards.Counters(d.ConsumesCounters[0].Counters))
		}
	}
	for i := range n.shape.Devices {
		d := &n.shape.Devices[i]
		whole := n.shape.Cards[d.Card].Counters
		n.fits[i] = whole == nil || within(plus(cards.Counters(d.ConsumesCounters[0].Counters), taken[d.Card]), whole)
	}
}

// within reports whether no counter is above that of the whole.
func within(taken, whole map[string]int64) bool {
	for name, t := range taken {
		if t > whole[name] {
			return false
		}
	}
	return true
}

// capacity is the part of a shared device that a want asks for. The zero value asks for the defaults.
type capacity struct {
	asked *resourceapi.CapacityRequirements
	key   string // equal for equal amounts of the same capacities
}

// capacityOf returns what a request asks for. r may be nil.
func capacityOf(r *resourceapi.CapacityRequirements) capacity {
	if r == nil || len(r.Requests) == 0 {
		return capacity{}
	}
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		q := r.Requests[name]
		key.WriteString(string(name) + "=" + q.String() + ";") // neither has a semicolon
	}
	return capacity{asked: r, key: key.String()}
}

// partSizes are the parts of a shape's devices that a want takes, in thousandths of each device: nil if all are 0. Those of devices
// that are not shared are 0, or tooMuch.
type partSizes []int16

// tooMuch is the part of a device that has less than the want asks for.
const tooMuch = cluster.DeviceMilli + 1

// at returns the part of device i.
func (p partSizes) at(i int) int64 {
	if p == nil {
		return 0
	}
	return int64(p[i])
}

// maxSizes is for how many capacities a shape remembers the sizes. Pods' owners write them, so there is no end to them.
const maxSizes = 64

// partsOf returns the parts of the devices that a want for a capacity takes. They depend on the slices alone, so the shape remembers them.
func (s *shape) partsOf(c capacity) partSizes {
	s.mu.Lock()
	defer s.mu.Unlock()
	if out, known := s.sizes[c.key]; known {
		return out
	}
	out := s.countParts(c.asked)
	if len(s.sizes) >= maxSizes {
		clear(s.sizes)
	}
	s.sizes[c.key] = out
	return out
}

// countParts computes what partsOf returns.
func (s *shape) countParts(asked *resourceapi.CapacityRequirements) (out partSizes) {
	for i := range s.Devices {
		part := partOf(&s.Devices[i], asked)
		if part == 0 {
			continue
		}
		if out == nil {
			out = make(partSizes, len(s.Devices))
		}
		out[i] = int16(part)
	}
	return out
}

// partOf returns the part of one device, as in partSizes.
func partOf(d *cards.Device, asked *resourceapi.CapacityRequirements) int64 {
	switch {
	case d.Shared():
		return cards.Consumed(d.Device, asked)
	case !offers(d.Device, asked):
		return tooMuch
	}
	return 0
}

// offers reports whether a device has the capacities that a request asks for. asked may be nil.
func offers(d *resourceapi.Device, asked *resourceapi.CapacityRequirements) bool {
	if asked == nil {
		return true
	}
	for name, amount := range asked.Requests {
		if has, known := d.Capacity[name]; !known || has.Value.Cmp(amount) < 0 {
			return false
		}
	}
	return true
}

// sizeOf returns which part of its card the device gives to a want that takes a part of it, in thousandths.
func sizeOf(d *cards.Device, part int64) int64 {
	if d.Shared() {
		return d.OfCard(part)
	}
	return d.Milli
}
