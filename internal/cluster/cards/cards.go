// Package cards reads the GPUs of a node from its ResourceSlices, and computes how much of them allocations take.
//
// A card is a device that is given out whole or in shares, or one that partitions share, which is a set of counters; a partition takes as
// much of it as of its counters in the mean. A driver's devices are GPUs if the driver's name begins with "gpu.", as AMD's, Intel's and
// NVIDIA's do. Devices of other drivers, and devices that several nodes can use, are left out.
package cards

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/each"
)

// gpuDriver begins the names of drivers whose devices are GPUs.
const gpuDriver = "gpu."

// modelAttributes are the attributes with a device's model, in its driver's domain: NVIDIA and AMD publish the first,
// Intel the second.
var modelAttributes = []string{"productName", "model"}

// Set holds the cards of one node, read from its slices. It changes rarely.
type Set struct {
	In      []*resourceapi.ResourceSlice // as given to Read
	Devices []Device
	Cards   []Card // in the order of their drivers, pools and names
	Product string // the model of all cards; empty if they differ
}

// Device is one device of a slice.
type Device struct {
	*resourceapi.Device
	Driver string
	Card   int   // in Set.Cards
	Milli  int64 // thousandths of the card that the whole device takes; rounded down for a partition

	// Slices and Profile are set for a device on a card with MIG. A device without a known profile has none.
	Slices  mig.Slices
	Profile mig.Profile
}

// Shared reports whether several claims can have the device at the same time.
func (d *Device) Shared() bool {
	return d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
}

// OfCard converts a part of the device, in thousandths of it, to thousandths of the card.
func (d *Device) OfCard(part int64) int64 {
	return (part*d.Milli + cluster.DeviceMilli - 1) / cluster.DeviceMilli
}

// Card is a physical device: one that is given out whole or in shares, or one that partitions share.
type Card struct {
	Driver, Pool string
	Name         string           // of the device, or of the counter set
	Counters     map[string]int64 // in thousandths; nil for a device without counters
	MIG          bool             // its counters are the memory slices of a GPU with MIG, among others
}

// OfNode reports whether a slice has GPUs of one node.
func OfNode(s *resourceapi.ResourceSlice) bool {
	return s.Spec.NodeName != nil && HasGPUs(s.Spec.Driver)
}

// HasGPUs reports whether a driver's devices are GPUs.
func HasGPUs(driver string) bool { return strings.HasPrefix(driver, gpuDriver) }

// Compare orders slices by driver, pool and name.
func Compare(a, b *resourceapi.ResourceSlice) int {
	return cmp.Or(comparePools(a, b), strings.Compare(a.Name, b.Name))
}

// Read reads the slices of one node, in the order of Compare. It leaves out pools that contradict themselves, which upstream
// does not allocate from, either. It returns nil if nothing is left, or if there are more cards than a policy
// can know.
func Read(in []*resourceapi.ResourceSlice) *Set {
	s := &Set{In: in}
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
	if len(s.Cards) == 0 || len(s.Cards) > cluster.MaxDevices {
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
func newest(pool []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	latest := int64(math.MinInt64)
	for _, s := range pool {
		latest = max(latest, s.Spec.Pool.Generation)
	}
	return each.Filter(pool, func(s *resourceapi.ResourceSlice) bool { return s.Spec.Pool.Generation == latest })
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
func (s *Set) addPool(pool []*resourceapi.ResourceSlice) {
	driver, name := pool[0].Spec.Driver, pool[0].Spec.Pool.Name
	sets := map[string]int{} // card of each counter set
	for _, slice := range pool {
		for _, set := range slice.Spec.SharedCounters {
			sets[set.Name] = len(s.Cards)
			counters := Counters(set.Counters)
			s.Cards = append(s.Cards, Card{Driver: driver, Pool: name, Name: set.Name, Counters: counters, MIG: isMIG(counters)})
		}
	}
	for _, slice := range pool {
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
				continue
			}
			out := Device{Device: d, Driver: driver, Milli: cluster.DeviceMilli}
			if len(d.ConsumesCounters) == 0 {
				out.Card = len(s.Cards)
				s.Cards = append(s.Cards, Card{Driver: driver, Pool: name, Name: d.Name})
			} else {
				use := d.ConsumesCounters[0] // further sets, of links for example, do not make a card
				out.Card = sets[use.CounterSet]
				taken := Counters(use.Counters)
				if out.Milli = size(taken, s.Cards[out.Card].Counters); s.Cards[out.Card].MIG {
					out.setMIG(taken)
				}
			}
			s.Devices = append(s.Devices, out)
		}
	}
}

// number puts the cards in the order of their drivers, pools and names, with numbers in names by their
// value: gpu-2-counter-set comes before gpu-10-counter-set.
func (s *Set) number() {
	order := make([]int, len(s.Cards))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := s.Cards[a], s.Cards[b]
		return cmp.Or(strings.Compare(x.Driver, y.Driver), strings.Compare(x.Pool, y.Pool), compareNatural(x.Name, y.Name))
	})
	cards, to := make([]Card, len(order)), make([]int, len(order))
	for i, old := range order {
		cards[i], to[old] = s.Cards[old], i
	}
	s.Cards = cards
	for i := range s.Devices {
		s.Devices[i].Card = to[s.Devices[i].Card]
	}
}

// compareNatural compares names part by part: digits by their value, the rest as text.
func compareNatural(a, b string) int {
	for x, y := a, b; x != "" && y != ""; {
		var m, n string
		m, x = firstRun(x)
		n, y = firstRun(y)
		if isDigit(m[0]) && isDigit(n[0]) {
			m, n = strings.TrimLeft(m, "0"), strings.TrimLeft(n, "0")
			if c := cmp.Compare(len(m), len(n)); c != 0 {
				return c
			}
		}
		if c := strings.Compare(m, n); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// firstRun splits off the digits that s begins with, or the text before its first digit.
func firstRun(s string) (run, rest string) {
	n := 1
	for n < len(s) && isDigit(s[n]) == isDigit(s[0]) {
		n++
	}
	return s[:n], s[n:]
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// setProduct sets the cards' model.
func (s *Set) setProduct() {
	for i := range s.Devices {
		model := s.Devices[i].model()
		if model == "" || i > 0 && model != s.Product {
			s.Product = ""
			return
		}
		s.Product = model
	}
}

// model returns the device's model; empty if the driver does not publish it.
func (d *Device) model() string {
	for _, name := range modelAttributes {
		if a, has := d.attribute(name); has && a.StringValue != nil {
			return *a.StringValue
		}
	}
	return ""
}

// Values returns an attribute of each card, as text: the value that the card's devices have, empty if none has one or if they differ. A
// name without a domain means the attribute in each driver's own domain. Of a list only the first value counts:
// resource.kubernetes.io/numaNode begins with the device's own node. Negative numbers count as no value: a NUMA node of -1 stands for none.
func (s *Set) Values(name string) []string {
	return s.common(func(d *Device) string { return d.text(name) })
}

// Models returns the model of each card; empty if the driver does not publish it.
func (s *Set) Models() []string { return s.common((*Device).model) }

// common returns for each card the values that all its devices share; empty is as good as any value.
func (s *Set) common(of func(*Device) string) []string {
	out, differ := make([]string, len(s.Cards)), make([]bool, len(s.Cards))
	for i := range s.Devices {
		card := s.Devices[i].Card
		if value := of(&s.Devices[i]); value != "" {
			differ[card] = differ[card] || out[card] != "" && out[card] != value
			out[card] = value
		}
	}
	for i := range out {
		if differ[i] {
			out[i] = ""
		}
	}
	return out
}

// attribute returns a device's attribute. A driver may leave out its own domain in the names of its attributes.
func (d *Device) attribute(name string) (resourceapi.DeviceAttribute, bool) {
	domain, short, qualified := strings.Cut(name, "/")
	if !qualified {
		domain, short = d.Driver, name
	}
	if a, has := d.Attributes[resourceapi.QualifiedName(domain+"/"+short)]; has {
		return a, true
	}
	if domain != d.Driver {
		return resourceapi.DeviceAttribute{}, false
	}
	a, has := d.Attributes[resourceapi.QualifiedName(short)]
	return a, has
}

// text returns an attribute's value, or the first of its list, with its type; empty for none.
func (d *Device) text(name string) string {
	a, _ := d.attribute(name)
	switch {
	case a.StringValue != nil:
		return "string " + *a.StringValue
	case len(a.StringValues) > 0:
		return "string " + a.StringValues[0]
	case a.VersionValue != nil:
		return "version " + *a.VersionValue
	case len(a.VersionValues) > 0:
		return "version " + a.VersionValues[0]
	case a.BoolValue != nil:
		return strconv.FormatBool(*a.BoolValue)
	case len(a.BoolValues) > 0:
		return strconv.FormatBool(a.BoolValues[0])
	case a.IntValue != nil && *a.IntValue >= 0:
		return strconv.FormatInt(*a.IntValue, 10)
	case len(a.IntValues) > 0 && a.IntValues[0] >= 0:
		return strconv.FormatInt(a.IntValues[0], 10)
	}
	return ""
}

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
