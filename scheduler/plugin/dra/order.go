package dra

import (
	"fmt"
	"math"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/structured"

	"gnnsched/internal/watched"
)

// order knows in which order claims got their devices: in that of their resource versions, so schedulers that do not know of each other
// agree on who was first. The order of events would not do. After a broken watch, claims are listed by name.
type order struct {
	once   sync.Once
	failed error // of follow

	mu      sync.Mutex
	claims  map[types.UID]*holder
	holders map[structured.DeviceID][]*holder // a claim is in it once for each of its results
	waiting watched.Waits
	twice   map[structured.DeviceID]bool // devices that several claims have, or had until one of them gave it back
}

// holder is a claim with the devices that it has.
type holder struct {
	claim   types.UID
	at      int64 // the resource version with which it was first seen to have it
	newest  int64 // the last one
	results []resourceapi.DeviceRequestAllocationResult
}

// whole reports whether the claim has all of a device.
func (t *holder) whole(id structured.DeviceID) bool {
	return slices.ContainsFunc(t.results, func(r resourceapi.DeviceRequestAllocationResult) bool {
		return r.ShareID == nil && consumes(&r) && deviceOf(&r) == id
	})
}

// follow begins to listen to the claims. Only the first call does. f may be nil: then nothing is known.
func (o *order) follow(f informers.SharedInformerFactory) error {
	o.once.Do(func() {
		if f == nil {
			return
		}
		_, o.failed = f.Resource().V1().ResourceClaims().Informer().AddEventHandler(o.handler())
	})
	return o.failed
}

// handler returns what has to hear of the claims.
func (o *order) handler() cache.ResourceEventHandler {
	o.claims, o.holders = map[types.UID]*holder{}, map[structured.DeviceID][]*holder{}
	o.waiting, o.twice = watched.Waits{}, map[structured.DeviceID]bool{}
	return watched.Handler(func(was, is *resourceapi.ResourceClaim, _ bool) {
		if was != nil && (is == nil || is.UID != was.UID) {
			o.drop(was.UID)
		}
		if is != nil {
			o.set(is)
		}
	})
}

// set notes what a claim has.
func (o *order) set(c *resourceapi.ResourceClaim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.Status.Allocation == nil {
		o.remove(c.UID)
		return
	}
	t, results := o.claims[c.UID], c.Status.Allocation.Devices.Results
	if t == nil || !apiequality.Semantic.DeepEqual(t.results, results) {
		o.remove(c.UID)
		t = &holder{claim: c.UID, at: watched.Version(c), results: results}
		o.add(t)
	}
	t.newest = watched.Version(c)
	o.waiting.Seen(c.UID, t.newest)
}

// add takes a claim into the books. The caller holds the lock.
func (o *order) add(t *holder) {
	o.claims[t.claim] = t
	for i := range t.results {
		if r := &t.results[i]; consumes(r) {
			id := deviceOf(r)
			o.holders[id] = append(o.holders[id], t)
			if r.ShareID == nil && len(o.holders[id]) > 1 {
				o.twice[id] = true
			}
		}
	}
}

// addTwice adds to a state the devices that several claims had and one still has. Upstream keeps a set of devices, and takes a device out
// of it as soon as one of the claims gives it back.
func (o *order) addTwice(state *structured.AllocatedState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id := range o.twice {
		if slices.ContainsFunc(o.holders[id], func(h *holder) bool { return h.whole(id) }) {
			state.AllocatedDevices.Insert(id)
		} else {
			delete(o.twice, id)
		}
	}
}

// drop notes that a claim is gone.
func (o *order) drop(claim types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.remove(claim)
}

// remove takes a claim out of the books. The caller holds the lock.
func (o *order) remove(claim types.UID) {
	t := o.claims[claim]
	if t == nil {
		return
	}
	delete(o.claims, claim)
	for i := range t.results {
		id := deviceOf(&t.results[i])
		left := slices.DeleteFunc(o.holders[id], func(h *holder) bool { return h == t })
		if o.holders[id] = left; len(left) == 0 {
			delete(o.holders, id)
		}
	}
}

// seen returns a channel that is closed as soon as the order has an allocated claim in its resource version or a later one: what it had
// before it gave devices back does not count.
func (o *order) seen(c *resourceapi.ResourceClaim) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := int64(-1)
	if t := o.claims[c.UID]; t != nil {
		seen = t.newest
	}
	return o.waiting.For(c.UID, watched.Version(c), seen)
}

// forget ends the wait for a claim that never came.
func (o *order) forget(claim types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.waiting, claim)
}

// overdrawn says which device of a claim was gone when the claim got it, given the slices: claims that were allocated before have it, or
// too much of its capacity or of its counters. With others, claims that were allocated later count, too. It returns "" if all is right.
func (o *order) overdrawn(claim types.UID, all []*resourceapi.ResourceSlice, others bool) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.claims[claim]
	if t == nil {
		return ""
	}
	before := func(h *holder) bool { return others || h.at <= t.at }
	pools := map[[2]string]*poolDevices{}
	for i := range t.results {
		r := &t.results[i]
		if !consumes(r) {
			continue
		}
		key := [2]string{r.Driver, r.Pool}
		if pools[key] == nil {
			pools[key] = devicesOf(all, r.Driver, r.Pool)
		}
		if o.conflicts(t, r, before) || pools[key].short(o, r, before) {
			return fmt.Sprintf("%s/%s/%s", r.Driver, r.Pool, r.Device)
		}
	}
	return ""
}

// conflicts reports whether another claim has the device of a result of t, and at least one of the two has all of it. The caller holds the
// lock.
func (o *order) conflicts(t *holder, r *resourceapi.DeviceRequestAllocationResult, before func(*holder) bool) bool {
	for _, h := range o.holders[deviceOf(r)] {
		if h == t || !before(h) {
			continue
		}
		if r.ShareID == nil || h.whole(deviceOf(r)) {
			return true
		}
	}
	return false
}

// taken returns what the holders of a device for which before holds consume of its capacities, and whether there are any. The caller holds
// the lock.
func (o *order) taken(id structured.DeviceID, before func(*holder) bool) (sums map[resourceapi.QualifiedName]resource.Quantity, any bool) {
	sums = map[resourceapi.QualifiedName]resource.Quantity{}
	counted := map[*holder]bool{}
	for _, h := range o.holders[id] {
		if !before(h) || counted[h] {
			continue
		}
		counted[h], any = true, true
		for i := range h.results {
			if r := &h.results[i]; consumes(r) && deviceOf(r) == id {
				for name, q := range r.ConsumedCapacity {
					sum := sums[name]
					sum.Add(q)
					sums[name] = sum
				}
			}
		}
	}
	return sums, any
}

// poolDevices are the devices and counters of a pool's newest generation.
type poolDevices struct {
	devices  map[structured.DeviceID]*resourceapi.Device
	counters map[string]map[string]resourceapi.Counter // by set
}

func devicesOf(all []*resourceapi.ResourceSlice, driver, pool string) *poolDevices {
	of := func(s *resourceapi.ResourceSlice) bool { return s.Spec.Driver == driver && s.Spec.Pool.Name == pool }
	newest := int64(math.MinInt64)
	for _, s := range all {
		if of(s) {
			newest = max(newest, s.Spec.Pool.Generation)
		}
	}
	p := &poolDevices{devices: map[structured.DeviceID]*resourceapi.Device{}, counters: map[string]map[string]resourceapi.Counter{}}
	for _, s := range all {
		if !of(s) || s.Spec.Pool.Generation != newest {
			continue
		}
		for i := range s.Spec.Devices {
			p.devices[structured.MakeDeviceID(driver, pool, s.Spec.Devices[i].Name)] = &s.Spec.Devices[i]
		}
		for _, set := range s.Spec.SharedCounters {
			p.counters[set.Name] = set.Counters
		}
	}
	return p
}

// short reports whether the claims for which before holds take more than there is of the capacity of a result's device, or of the counters
// that it consumes. A device or counter that the driver does not publish, or not yet, has no limits. The caller holds the order's lock.
func (p *poolDevices) short(o *order, r *resourceapi.DeviceRequestAllocationResult, before func(*holder) bool) bool {
	d := p.devices[deviceOf(r)]
	if d == nil {
		return false
	}
	if r.ShareID != nil {
		sums, _ := o.taken(deviceOf(r), before)
		for name, sum := range sums {
			if has, known := d.Capacity[name]; known && sum.Cmp(has.Value) > 0 {
				return true
			}
		}
	}
	return slices.ContainsFunc(d.ConsumesCounters, func(use resourceapi.DeviceCounterConsumption) bool {
		return p.exhausted(o, use.CounterSet, before)
	})
}

// exhausted reports whether the devices that the claims have consume more than there is of a set's counters.
func (p *poolDevices) exhausted(o *order, set string, before func(*holder) bool) bool {
	sums := map[string]resource.Quantity{}
	for id, d := range p.devices {
		if _, any := o.taken(id, before); !any {
			continue
		}
		for _, use := range d.ConsumesCounters {
			if use.CounterSet != set {
				continue
			}
			for name, c := range use.Counters {
				sum := sums[name]
				sum.Add(c.Value)
				sums[name] = sum
			}
		}
	}
	for name, sum := range sums {
		if has, known := p.counters[set][name]; known && sum.Cmp(has.Value) > 0 {
			return true
		}
	}
	return false
}

// consumes reports whether a result takes something of its device. Admin access does not.
func consumes(r *resourceapi.DeviceRequestAllocationResult) bool {
	return r.AdminAccess == nil || !*r.AdminAccess
}

func deviceOf(r *resourceapi.DeviceRequestAllocationResult) structured.DeviceID {
	return structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
}
