package dra

import (
	"maps"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
)

// shares knows what each share of a device consumes.
//
// Upstream adds up what its cache of claims has and what is in flight. While a claim is bound it is in both for a
// moment, and its shares count twice. Each share has an ID, so the sums can be made of each share once.
type shares struct {
	mu    sync.Mutex
	known map[structured.SharedDeviceID]structured.ConsumedCapacity // never changed; nil if the share consumes nothing
	last  sums                                                      // of the last state whose shares were all known
}

// learn notes the shares of an allocation, which may be nil.
func (s *shares) learn(a *resourceapi.AllocationResult) {
	if a == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range a.Devices.Results {
		if r.ShareID == nil {
			continue
		}
		device := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		var consumed structured.ConsumedCapacity
		if r.ConsumedCapacity != nil {
			consumed = structured.NewDeviceConsumedCapacity(device, r.ConsumedCapacity).ConsumedCapacity
		}
		if s.known == nil {
			s.known = map[structured.SharedDeviceID]structured.ConsumedCapacity{}
		}
		s.known[structured.MakeSharedDeviceID(device, r.ShareID)] = consumed
	}
}

// extraShares is how many shares are remembered besides twice those in use.
const extraShares = 100

// sums hold the consumption of each device by the shares with some IDs. They never change.
type sums struct {
	ids sets.Set[structured.SharedDeviceID]
	of  structured.ConsumedCapacityCollection
}

// sum returns what the shares of a state consume of each device, and whether it knows all of them. A device with a
// share that is not known has the state's own sum. A device whose shares are those of the last call has the same map.
// Nobody may change the sums.
func (s *shares) sum(state *structured.AllocatedState) (out structured.ConsumedCapacityCollection, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := state.AllocatedSharedDeviceIDs
	changed := s.last.changed(ids)
	if len(changed) == 0 && s.last.of != nil {
		return s.last.of, true
	}
	out = maps.Clone(s.last.of)
	if out == nil {
		out = make(structured.ConsumedCapacityCollection, len(state.AggregatedCapacity))
	}
	for device := range changed {
		delete(out, device)
	}
	unknown := s.add(out, ids, changed)
	for _, device := range unknown {
		if consumed, has := state.AggregatedCapacity[device]; has {
			out[device] = consumed
		}
	}
	if len(s.known) > 2*len(ids)+extraShares {
		maps.DeleteFunc(s.known, func(id structured.SharedDeviceID, _ structured.ConsumedCapacity) bool { return !ids.Has(id) })
	}
	s.last = sums{}
	if len(unknown) == 0 {
		s.last = sums{ids, out}
	}
	return out, len(unknown) == 0
}

// changed returns the devices with other shares than in the sums.
func (s sums) changed(ids sets.Set[structured.SharedDeviceID]) map[structured.DeviceID]bool {
	out := map[structured.DeviceID]bool{}
	kept := len(ids)
	for id := range ids {
		if !s.ids.Has(id) {
			out[id.GetDeviceID()] = true
			kept--
		}
	}
	if kept == len(s.ids) {
		return out
	}
	for id := range s.ids {
		if !ids.Has(id) {
			out[id.GetDeviceID()] = true
		}
	}
	return out
}

// add adds to out what the shares of some devices consume. It returns the devices of those that are not known.
func (s *shares) add(out structured.ConsumedCapacityCollection, ids sets.Set[structured.SharedDeviceID],
	of map[structured.DeviceID]bool) (unknown []structured.DeviceID) {
	for id := range ids {
		device := id.GetDeviceID()
		if !of[device] {
			continue
		}
		consumed, known := s.known[id]
		before, several := out[device]
		switch {
		case !known:
			unknown = append(unknown, device)
		case consumed == nil:
		case several:
			out[device] = before.Clone()
			out[device].Add(consumed)
		default:
			out[device] = consumed
		}
	}
	return unknown
}

// gather returns what claims have allocated, those in flight and those that may have been written included, each share once. The error is
// upstream's, which asks for another try if claims changed meanwhile.
func (l *Ledger) gather() (*structured.AllocatedState, error) {
	tracker := l.manager.ResourceClaims()
	state, err := tracker.GatherAllocatedState()
	if err == nil {
		l.addHeld(state)
		l.order.addTwice(state)
	}
	if err != nil || len(state.AllocatedSharedDeviceIDs) == 0 {
		return state, err
	}
	sums, all := l.shares.sum(state)
	if !all { // some are from before this process, or another plugin allocated them
		claims, err := tracker.List()
		if err != nil {
			return nil, err
		}
		for _, c := range claims {
			l.shares.learn(c.Status.Allocation)
			l.shares.learn(tracker.GetPendingAllocation(c.UID))
		}
		sums, _ = l.shares.sum(state)
	}
	state.AggregatedCapacity = sums
	return state, nil
}
