package nodepool

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/internal/cluster/mig"
)

// profile returns a MIG profile of the devices by its name: its compute slices and its memory in GB, such as 3g.20gb.
func (d *Devices) profile(name string) (mig.Profile, error) {
	total := d.gigabytes()
	if total < mig.Memory {
		return mig.None, fmt.Errorf("%q needs the devices' memory of %dGi or more, of which a partition gets a part", name, mig.Memory)
	}
	var known []string
	for _, p := range mig.Profiles() {
		own := p.Name(total)
		if own == name {
			return p, nil
		}
		known = append(known, own)
	}
	return mig.None, fmt.Errorf("%q is not a MIG profile of a device with %s; those are %s", name, d.Memory.String(),
		strings.Join(known, ", "))
}

// gigabytes returns the memory of one device in GiB, which profiles call gb.
func (d *Devices) gigabytes() int {
	return int(math.Round(d.Memory.AsApproximateFloat64() / (1 << 30)))
}

// counters returns the counters that a partition takes of its device.
func counters(p mig.Profile, start int) map[string]resourceapi.Counter {
	out := map[string]resourceapi.Counter{"compute-slices": count(p.Compute())}
	for i := start; i < start+p.Memory(); i++ {
		out[mig.CounterPrefix+strconv.Itoa(i)] = count(1)
	}
	return out
}

// allCounters are the counters of a whole device.
func allCounters() map[string]resourceapi.Counter { return counters(mig.Seven, 0) }

func count(n int) resourceapi.Counter {
	return resourceapi.Counter{Value: *resource.NewQuantity(int64(n), resource.DecimalSI)}
}
