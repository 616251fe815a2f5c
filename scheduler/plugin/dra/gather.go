package dra

import (
	"cmp"
	"maps"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/cards"
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

// hide returns the slices without what pods without claims use of their cards, by node and in thousandths: a device that
// is given out whole, and the partitions of a card, are missing, and one that is shared has less capacity. It changes none of the
// slices passed.
func hide(all []*resourceapi.ResourceSlice, view *View, taken map[string][]int64) []*resourceapi.ResourceSlice {
	if len(taken) == 0 {
		return all
	}
	out := make([]*resourceapi.ResourceSlice, len(all))
	for i, s := range all {
		out[i] = s
		if !cards.OfNode(s) {
			continue
		}
		if n, used := view.Node(*s.Spec.NodeName), taken[*s.Spec.NodeName]; n != nil && used != nil {
			out[i] = n.without(s, used)
		}
	}
	return out
}

// without returns a slice of the node without what is used of its cards.
func (n *Node) without(s *resourceapi.ResourceSlice, used []int64) *resourceapi.ResourceSlice {
	on := map[string]int{}
	for _, d := range n.shape.Devices {
		if c := n.shape.Cards[d.Card]; c.Driver == s.Spec.Driver && c.Pool == s.Spec.Pool.Name {
			on[d.Name] = d.Card
		}
	}
	c := *s
	c.Spec.Devices = make([]resourceapi.Device, 0, len(s.Spec.Devices))
	for _, d := range s.Spec.Devices {
		card, known := on[d.Name]
		switch {
		case !known || card >= len(used) || used[card] == 0:
		case d.AllowMultipleAllocations == nil || !*d.AllowMultipleAllocations, len(d.ConsumesCounters) > 0, used[card] >= cluster.DeviceMilli:
			continue
		default:
			d.Capacity = lessened(d.Capacity, used[card])
		}
		c.Spec.Devices = append(c.Spec.Devices, d)
	}
	return &c
}

// lessened returns the capacities without the given thousandths of each.
func lessened(capacity map[resourceapi.QualifiedName]resourceapi.DeviceCapacity,
	milli int64) map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	out := maps.Clone(capacity)
	for name, c := range out {
		left := c.Value.AsApproximateFloat64() * float64(cluster.DeviceMilli-milli) / cluster.DeviceMilli
		c.Value = *resource.NewMilliQuantity(int64(left*1000), c.Value.Format)
		out[name] = c
	}
	return out
}

// Placer adds the pods with claims on one node to a cluster.Node.
type Placer struct {
	*Node
	view   *View
	only   bool    // the node's GPUs are in slices only
	placed []int64 // thousandths of each card that the pods hold
}

// Placer gives n, which has no pods yet, the cards that it lacks, and returns a placer for its pods. It returns nil if
// the node has no devices of slices.
func (v *View) Placer(n *cluster.Node) *Placer {
	d := v.Node(n.Name)
	if d == nil {
		return nil
	}
	p := &Placer{Node: d, view: v, only: n.Allocatable.GPU == 0, placed: make([]int64, len(d.used))}
	if more := len(d.used) - len(n.GPUs); more > 0 {
		n.Allocatable.GPU += int64(more)
		n.GPUs = append(n.GPUs[:len(n.GPUs):len(n.GPUs)], make([]int64, more)...)
	}
	n.GPUModel = cmp.Or(n.GPUModel, d.shape.Product)
	n.Slices = d.slices
	return p
}

// Has reports whether claims serve a pod's GPUs on the node, so that Place must add it. p may be nil.
func (p *Placer) Has(pod *v1.Pod) bool {
	return p != nil && (p.only || len(pod.Spec.ResourceClaims) > 0)
}

// Place adds a running pod that requests r to n, with its claims' cards in place of r's GPUs. Rest must follow
// after the last pod. Of pods that share a claim, the first counts its cards.
func (p *Placer) Place(n *cluster.Node, pod *v1.Pod, r cluster.Resources) {
	r.GPU, r.GPUMilli = 0, 0
	milli := make([]int64, len(p.used))
	for _, c := range p.view.ledger.claims(pod) {
		if c.Status.Allocation != nil {
			p.shape.Count(milli, c.Status.Allocation.Devices.Results)
		}
	}
	var whole, shared cluster.DeviceSet
	for i, m := range milli {
		switch {
		case m == 0 || p.placed[i]+m > p.used[i]: // nothing, or the claim is counted already
		case m >= cluster.DeviceMilli:
			whole |= cluster.Device(i)
		case shared == 0:
			shared = cluster.Device(i)
			r.GPUMilli = m
		}
	}
	on := shared
	if whole != 0 { // cluster.Resources has no both; Rest counts the share
		r.GPU, r.GPUMilli, on = int64(whole.Len()), 0, whole
	}
	for i := range milli {
		if on.Has(i) {
			p.placed[i] += milli[i]
		}
	}
	n.AddOn(r, on)
}

// Requests returns what a running pod requests, given what it requests without its claims. v may be nil.
func (v *View) Requests(pod *v1.Pod, r cluster.Resources) cluster.Resources {
	n := v.Node(pod.Spec.NodeName)
	if n == nil || len(pod.Spec.ResourceClaims) == 0 {
		return r
	}
	var t takes
	for _, c := range v.ledger.claims(pod) {
		if c.Status.Allocation == nil {
			continue
		}
		milli := make([]int64, len(n.used))
		n.shape.Count(milli, c.Status.Allocation.Devices.Results)
		for _, m := range milli {
			t.add(1, m)
		}
	}
	t.set(&r)
	return r
}

// cardsOf returns the cards of allocated claims on the node.
func (n *Node) cardsOf(given []*resourceapi.ResourceClaim) (on cluster.DeviceSet) {
	milli := make([]int64, len(n.used))
	for _, c := range given {
		n.shape.Count(milli, c.Status.Allocation.Devices.Results)
	}
	for i, m := range milli {
		if m > 0 {
			on |= cluster.Device(i)
		}
	}
	return on
}

// Rest counts what claims use and no placed pod does: claims that no pod holds yet or any more. p may be nil.
func (p *Placer) Rest(n *cluster.Node) {
	if p == nil {
		return
	}
	for i, used := range p.used {
		if more := used - p.placed[i]; more > 0 && i < len(n.GPUs) {
			n.GPUs[i] += more
		}
	}
}

// claims returns the claims of a pod that exist, as the manager knows them: with allocations that are in flight.
func (l *Ledger) claims(pod *v1.Pod) (out []*resourceapi.ResourceClaim) {
	tracker := l.manager.ResourceClaims()
	get := func(name string, owned bool) {
		c, err := tracker.Get(pod.Namespace, name)
		if err != nil || owned && resourceclaim.IsForPod(pod, c, false) != nil {
			return
		}
		if c.Status.Allocation == nil {
			if a := tracker.GetPendingAllocation(c.UID); a != nil {
				c = &resourceapi.ResourceClaim{ObjectMeta: c.ObjectMeta, Spec: c.Spec, Status: resourceapi.ResourceClaimStatus{Allocation: a}}
			}
		}
		out = append(out, c)
	}
	for i := range pod.Spec.ResourceClaims {
		if name, owned, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			get(*name, owned)
		}
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		get(s.ResourceClaimName, true)
	}
	return out
}
