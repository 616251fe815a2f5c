package dra

import (
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/cards"
)

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
