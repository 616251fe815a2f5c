package dra

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/structured"

	"gnnsched/internal/cluster"
)

// gpuDriver begins the names of drivers whose devices are GPUs.
const gpuDriver = "gpu."

// productAttribute is the attribute with a device's model, in its driver's domain.
const productAttribute = "productName"

// shape is what the slices of a node say, which changes rarely. It is immutable but for what it has matched.
type shape struct {
	in      []*resourceapi.ResourceSlice // sorted by driver, pool and name
	devices []device
	cards   []card
	product string // the model of all cards; empty if they differ

	mu      sync.Mutex
	matched map[string][]bool // which devices an expression selects; see selects
}

// device is one device of a slice.
type device struct {
	*resourceapi.Device
	id     structured.DeviceID
	driver string
	card   int
	milli  int64 // thousandths of the card that the device takes if it is not shared
}

// card is a physical device.
type card struct {
	driver, pool string
	name         string           // of the device, or of the counter set
	counters     map[string]int64 // in thousandths; nil for a device without counters
}

// newShape reads the slices of one node. It leaves out pools that contradict themselves, which upstream
// does not allocate from, either. It returns nil if nothing is left, or if there are more cards than a policy
// can know.
func newShape(in []*resourceapi.ResourceSlice) *shape {
	s := &shape{in: in, matched: map[string][]bool{}}
	for rest := in; len(rest) > 0; {
		n := 1
		for n < len(rest) && comparePools(rest[0], rest[n]) == 0 {
			n++
		}
		if pool := newest(rest[:n]); complete(pool) {
			s.addPool(pool)
		}
		rest = rest[n:]
	}
	if len(s.cards) == 0 || len(s.cards) > cluster.MaxDevices {
		return nil
	}
	s.number()
	s.setProduct()
	return s
}

// comparePools orders slices by driver and pool.
func comparePools(a, b *resourceapi.ResourceSlice) int {
	return cmp.Or(strings.Compare(a.Spec.Driver, b.Spec.Driver), strings.Compare(a.Spec.Pool.Name, b.Spec.Pool.Name))
}

// newest returns the slices of a pool's latest generation.
func newest(pool []*resourceapi.ResourceSlice) (out []*resourceapi.ResourceSlice) {
	latest := int64(math.MinInt64)
	for _, s := range pool {
		latest = max(latest, s.Spec.Pool.Generation)
	}
	for _, s := range pool {
		if s.Spec.Pool.Generation == latest {
			out = append(out, s)
		}
	}
	return out
}

// complete reports whether all slices of a pool are there, and agree with each other.
func complete(pool []*resourceapi.ResourceSlice) bool {
	names, sets := map[string]bool{}, map[string]bool{}
	for _, s := range pool {
		if s.Spec.Pool.ResourceSliceCount != int64(len(pool)) {
			return false
		}
		for _, d := range s.Spec.Devices {
			if names[d.Name] {
				return false
			}
			names[d.Name] = true
		}
		for _, c := range s.Spec.SharedCounters {
			if sets[c.Name] {
				return false
			}
			sets[c.Name] = true
		}
	}
	for _, s := range pool {
		for _, d := range s.Spec.Devices {
			for _, c := range d.ConsumesCounters {
				if !sets[c.CounterSet] {
					return false
				}
			}
		}
	}
	return true
}

// addPool adds the devices of a complete pool, and their cards.
func (s *shape) addPool(pool []*resourceapi.ResourceSlice) {
	driver, name := pool[0].Spec.Driver, pool[0].Spec.Pool.Name
	sets := map[string]int{} // card of each counter set
	for _, slice := range pool {
		for _, set := range slice.Spec.SharedCounters {
			sets[set.Name] = len(s.cards)
			s.cards = append(s.cards, card{driver: driver, pool: name, name: set.Name, counters: counters(set.Counters)})
		}
	}
	for _, slice := range pool {
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
				continue
			}
			out := device{Device: d, id: structured.MakeDeviceID(driver, name, d.Name), driver: driver, milli: cluster.DeviceMilli}
			if len(d.ConsumesCounters) == 0 {
				out.card = len(s.cards)
				s.cards = append(s.cards, card{driver: driver, pool: name, name: d.Name})
			} else {
				use := d.ConsumesCounters[0] // further sets, of links for example, do not make a card
				out.card = sets[use.CounterSet]
				out.milli = share(counters(use.Counters), s.cards[out.card].counters)
			}
			s.devices = append(s.devices, out)
		}
	}
}

func counters(in map[string]resourceapi.Counter) map[string]int64 {
	out := make(map[string]int64, len(in))
	for name, c := range in {
		out[name] = c.Value.MilliValue()
	}
	return out
}

// share returns which part of the whole the used counters are, in thousandths of a card, rounded up: the mean over the
// whole's counters. The most used counter would not do, because a driver has a counter of 1 for each memory slice.
func share(used, whole map[string]int64) int64 {
	sum := int64(0)
	for name, w := range whole {
		sum += thousandths(float64(used[name]), float64(w))
	}
	return thousandths(float64(sum), float64(cluster.DeviceMilli*len(whole)))
}

// thousandths returns used/whole in thousandths, rounded up, 0 to cluster.DeviceMilli.
func thousandths(used, whole float64) int64 {
	switch {
	case used <= 0:
		return 0
	case used >= whole:
		return cluster.DeviceMilli
	}
	return int64(math.Ceil(cluster.DeviceMilli*used/whole - 1e-9))
}

// number puts the cards in the order of their drivers, pools and names, with numbers in names by their
// value: gpu-2 comes before gpu-10.
func (s *shape) number() {
	order := make([]int, len(s.cards))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := s.cards[a], s.cards[b]
		return cmp.Or(strings.Compare(x.driver, y.driver), strings.Compare(x.pool, y.pool), compareNatural(x.name, y.name))
	})
	cards, to := make([]card, len(order)), make([]int, len(order))
	for i, old := range order {
		cards[i], to[old] = s.cards[old], i
	}
	s.cards = cards
	for i := range s.devices {
		s.devices[i].card = to[s.devices[i].card]
	}
}

// compareNatural compares names by their text, and numbers at their ends by value.
func compareNatural(a, b string) int {
	x, y := strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789")
	m, n := strings.TrimLeft(a[len(x):], "0"), strings.TrimLeft(b[len(y):], "0")
	return cmp.Or(strings.Compare(x, y), cmp.Compare(len(m), len(n)), strings.Compare(m, n), strings.Compare(a, b))
}

// setProduct sets the cards' model.
func (s *shape) setProduct() {
	for i, d := range s.devices {
		a, has := d.Attributes[productAttribute]
		if !has {
			a = d.Attributes[resourceapi.QualifiedName(d.driver+"/"+productAttribute)]
		}
		if a.StringValue == nil || i > 0 && *a.StringValue != s.product {
			s.product = ""
			return
		}
		s.product = *a.StringValue
	}
}

// consumed returns which part of a shared device a claim takes, in thousandths: that of the capacity of
// which it takes most. It computes as upstream's allocator does.
func consumed(d *resourceapi.Device, request *resourceapi.CapacityRequirements) (milli int64) {
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
		milli = max(milli, thousandths(amount.AsApproximateFloat64(), c.Value.AsApproximateFloat64()))
	}
	return milli
}

// rounded returns what a claim takes that asks for an amount.
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
