package cards

import (
	"strconv"
	"strings"

	"gnnsched/internal/cluster/mig"
)

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
