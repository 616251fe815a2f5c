package cards

import (
	"math"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
)

// Count adds the parts of the cards that the results of an allocation take to milli, in thousandths of each card.
func (s *Set) Count(milli []int64, results []resourceapi.DeviceRequestAllocationResult) {
	for i := range results {
		if card, taken := s.Taken(&results[i]); taken > 0 {
			milli[card] += taken
		}
	}
}

// Taken returns the card of an allocated device, and how many thousandths of it are taken; 0 if the device is not in the set, or for admin
// access.
func (s *Set) Taken(r *resourceapi.DeviceRequestAllocationResult) (card int, milli int64) {
	if r.AdminAccess != nil && *r.AdminAccess {
		return 0, 0
	}
	for i := range s.Devices {
		d := &s.Devices[i]
		c := &s.Cards[d.Card]
		if d.Name != r.Device || c.Driver != r.Driver || c.Pool != r.Pool {
			continue
		}
		if r.ShareID == nil {
			return d.Card, d.Milli
		}
		for name, q := range r.ConsumedCapacity {
			whole := d.Capacity[name].Value
			milli = max(milli, Thousandths(q.AsApproximateFloat64(), whole.AsApproximateFloat64()))
		}
		return d.Card, d.OfCard(milli)
	}
	return 0, 0
}

// Counters returns the values of counters, in thousandths.
func Counters(in map[string]resourceapi.Counter) map[string]int64 {
	out := make(map[string]int64, len(in))
	for name, c := range in {
		out[name] = c.Value.MilliValue()
	}
	return out
}

// Share returns used as a share of whole, in thousandths of a card, rounded up: the mean over the counters of whole that are not zero. The
// most used counter would not do, because a driver has a counter of 1 for each memory slice.
func Share(used, whole map[string]int64) int64 {
	sum, n := int64(0), int64(0)
	for name, w := range whole {
		if w > 0 {
			sum += Thousandths(float64(used[name]), float64(w))
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return Thousandths(float64(sum), float64(cluster.DeviceMilli*n))
}

// size returns what Share does, rounded down, and 1 at least: a partition that fits beside others then also fits by thousandths.
func size(used, whole map[string]int64) int64 {
	sum, n := int64(0), int64(0)
	for name, w := range whole {
		if w > 0 {
			sum += cluster.DeviceMilli * min(used[name], w) / w
			n++
		}
	}
	return max(sum/max(n, 1), 1)
}

// Thousandths returns used/whole in thousandths, rounded up, 0 to cluster.DeviceMilli.
func Thousandths(used, whole float64) int64 {
	switch {
	case used <= 0:
		return 0
	case used >= whole:
		return cluster.DeviceMilli
	}
	return int64(math.Ceil(cluster.DeviceMilli*used/whole - 1e-9))
}

// Consumed returns the part of a shared device that a claim takes, in thousandths: the largest share over the device's capacities. It
// computes as upstream's allocator does.
func Consumed(d *resourceapi.Device, request *resourceapi.CapacityRequirements) (milli int64) {
	for name, c := range d.Capacity {
		asked, has := resource.Quantity{}, false
		if request != nil {
			asked, has = request.Requests[name]
		}
		amount := c.Value
		switch policy := c.RequestPolicy; {
		case has:
			amount = rounded(asked, policy)
		case policy != nil && policy.Default != nil:
			amount = *policy.Default
		}
		milli = max(milli, Thousandths(amount.AsApproximateFloat64(), c.Value.AsApproximateFloat64()))
	}
	return milli
}

// rounded returns the amount that a claim takes when it asks for an amount.
func rounded(asked resource.Quantity, policy *resourceapi.CapacityRequestPolicy) resource.Quantity {
	switch {
	case policy == nil:
	case policy.ValidRange != nil && policy.ValidRange.Min != nil:
		least, step := *policy.ValidRange.Min, policy.ValidRange.Step
		if asked.Cmp(least) < 0 {
			return least
		}
		if step == nil || step.Value() <= 0 {
			return asked
		}
		steps := (asked.Value() - least.Value() + step.Value() - 1) / step.Value()
		return *resource.NewQuantity(least.Value()+steps*step.Value(), resource.DecimalSI)
	default:
		for _, v := range policy.ValidValues {
			if asked.Cmp(v) <= 0 {
				return v
			}
		}
	}
	return asked
}

// profileAttribute is the attribute of a partition with its MIG profile, such as 1g.5gb.
const profileAttribute = "profile"

// memorySlices returns the memory slices among counters, in thousandths. It is not ok if they contradict a GPU's.
func memorySlices(counters map[string]int64) (on mig.Slices, ok bool) {
	for name, value := range counters {
		number, has := strings.CutPrefix(name, mig.CounterPrefix)
		if !has || value == 0 {
			continue
		}
		i, err := strconv.Atoi(number)
		if err != nil || i < 0 || i >= mig.Memory || value != 1000 {
			return 0, false
		}
		on |= 1 << i
	}
	return on, true
}

// isMIG reports whether partitions that share counters lie on a GPU's memory slices.
func isMIG(counters map[string]int64) bool {
	on, ok := memorySlices(counters)
	return ok && on == mig.All
}

// setMIG sets the slices and the profile of a device that shares counters.
func (d *Device) setMIG(use map[string]int64) {
	var ok bool
	if d.Slices, ok = memorySlices(use); !ok {
		d.Slices = mig.All
		return
	}
	a, _ := d.attribute(profileAttribute)
	if a.StringValue == nil {
		return
	}
	compute, _, _ := strings.Cut(*a.StringValue, "g.")
	if n, err := strconv.Atoi(compute); err == nil {
		d.Profile = mig.Find(d.Slices, n)
	}
	if d.Profile != mig.None { // the same with any driver's counters
		d.Milli = d.Profile.Milli()
	}
}
