package dra

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/cards"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/metric"
)

// handle is the framework's with another DRA manager. Upstream's plugin takes the manager from it once, when
// it is made.
type handle struct {
	fwk.Handle
	dra *manager
}

// SharedDRAManager implements fwk.Handle.
func (h handle) SharedDRAManager() fwk.SharedDRAManager { return h.dra }

// manager is the framework's own, which all profiles share, with two calls watched.
type manager struct {
	fwk.SharedDRAManager
	ledger *Ledger
	taken  func(*View) map[string][]int64 // see Host
	// cycle is set while PreFilter runs, which is not twice at the same time. Other calls, of binding
	// goroutines for example, are passed on.
	cycle atomic.Pointer[cycle]
	// reserving is set while Reserve runs, and gets the claims that it allocates.
	reserving atomic.Pointer[[]*resourceapi.ResourceClaim]
}

// cycle holds the choice, the allocated state and the view of one call of upstream's PreFilter.
type cycle struct {
	choice *choice // nil: all slices as they are
	state  *structured.AllocatedState
	view   *View
}

// choice is a node and the cards that a pod should get there.
type choice struct {
	node *Node
	name string
	on   cluster.DeviceSet
	at   mig.Slices // of the partition that the pod should get on its one card; 0: any partition
}

// ResourceClaims implements fwk.SharedDRAManager.
func (m *manager) ResourceClaims() fwk.ResourceClaimTracker {
	return tracker{m.SharedDRAManager.ResourceClaims(), m}
}

// ResourceSlices implements fwk.SharedDRAManager.
func (m *manager) ResourceSlices() fwk.ResourceSliceLister {
	return lister{m.SharedDRAManager.ResourceSlices(), m}
}

type tracker struct {
	fwk.ResourceClaimTracker
	m *manager
}

// GatherAllocatedState implements fwk.ResourceClaimTracker. It keeps what upstream gets, so that policies go by what the allocator goes by.
func (t tracker) GatherAllocatedState() (*structured.AllocatedState, error) {
	s, err := t.m.ledger.gather()
	if c := t.m.cycle.Load(); c != nil && err == nil {
		c.state = s
	}
	return s, err
}

// SignalClaimPendingAllocation implements fwk.ResourceClaimTracker. It keeps what upstream's Reserve allocates.
func (t tracker) SignalClaimPendingAllocation(uid types.UID, claim *resourceapi.ResourceClaim) error {
	t.m.ledger.shares.learn(claim.Status.Allocation)
	if r := t.m.reserving.Load(); r != nil {
		*r = append(*r, claim)
	}
	return t.ResourceClaimTracker.SignalClaimPendingAllocation(uid, claim)
}

type lister struct {
	fwk.ResourceSliceLister
	m *manager
}

// ListWithDeviceTaintRules implements fwk.ResourceSliceLister. It returns the slices without what pods without claims use, or those that
// the choice leaves, in its order.
func (l lister) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	all, err := l.ResourceSliceLister.ListWithDeviceTaintRules()
	c := l.m.cycle.Load()
	if err != nil || c == nil || c.state == nil {
		return all, err
	}
	c.view = l.m.ledger.update(all, c.state)
	all = hide(all, c.view, l.m.taken(c.view))
	if c.choice == nil {
		return all, nil
	}
	return c.choice.arrange(all), nil
}

// arrange returns the slices that the choice's node can use, and those of other nodes in its pools, with the chosen partition first, then
// the other devices of the chosen cards, then the rest of their pool. Upstream's allocator goes through the slices of a pool by name and
// through the devices of a slice in their order. So a slice with devices of several ranks becomes several, whose names begin with the rank.
// It changes none of the slices passed.
func (c *choice) arrange(all []*resourceapi.ResourceSlice) (out []*resourceapi.ResourceSlice) {
	ranks := map[string]int{} // of the devices, by driver, pool and name
	for _, d := range c.node.shape.Devices {
		card := c.node.shape.Cards[d.Card]
		ranks[card.Driver+"/"+card.Pool+"/"+d.Name] = c.rank(&d)
	}
	here := map[pool]bool{}
	for _, s := range all {
		if s.Spec.NodeName != nil && *s.Spec.NodeName == c.name {
			here[poolOf(s)] = true
		}
	}
	added := map[pool]int64{} // slices
	var ours []*resourceapi.ResourceSlice
	for _, s := range all {
		switch {
		case s.Spec.NodeName == nil:
			out = append(out, s)
		case *s.Spec.NodeName != c.name && !here[poolOf(s)]:
		case *s.Spec.NodeName != c.name: // upstream wants all slices of a pool
			out = append(out, s)
		case !cards.OfNode(s):
			out = append(out, s)
		default:
			parts := split(s, func(d string) int {
				if r, known := ranks[s.Spec.Driver+"/"+s.Spec.Pool.Name+"/"+d]; known {
					return r
				}
				return lastRank
			})
			added[poolOf(s)] += int64(len(parts) - 1)
			ours = append(ours, parts...)
		}
	}
	for _, s := range ours {
		s.Spec.Pool.ResourceSliceCount += added[poolOf(s)]
	}
	slices.SortFunc(ours, func(a, b *resourceapi.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
	return append(out, ours...)
}

// The ranks of devices: the chosen partition, the chosen cards, and others.
const (
	firstRank = iota
	cardRank
	lastRank
)

// rank returns the rank of a device of the choice's node.
func (c *choice) rank(d *cards.Device) int {
	switch {
	case !c.on.Has(d.Card):
		return lastRank
	case c.at != 0 && d.Slices != c.at:
		return cardRank
	}
	return firstRank
}

// pool identifies a pool in one generation.
type pool struct {
	driver, name string
	generation   int64
}

func poolOf(s *resourceapi.ResourceSlice) pool {
	return pool{s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Pool.Generation}
}

// split returns copies of a slice with the devices of each rank, as far as there are any.
func split(s *resourceapi.ResourceSlice, rank func(device string) int) (parts []*resourceapi.ResourceSlice) {
	var by [lastRank + 1][]resourceapi.Device
	for _, d := range s.Spec.Devices {
		r := rank(d.Name)
		by[r] = append(by[r], d)
	}
	for r, devices := range by {
		if len(devices) > 0 || r == lastRank && len(parts) == 0 {
			c := *s
			c.Name, c.Spec.Devices = strconv.Itoa(r)+"-"+s.Name, devices
			parts = append(parts, &c)
		}
	}
	return parts
}

var set metric.Set

// choices counts the pods with claims that were reserved.
var choices = set.Counters("claim_choices_total",
	"Pods with claims that got a node. choice is taken if they got the devices that the profile's policy chose, "+
		"other if the allocator could not give them, and none if the policy had no opinion.",
	"profile", "choice")

// unconfirmed counts the claims whose allocations are neither known to be written nor known not to be.
var unconfirmed = set.Gauges("claims_unconfirmed",
	"Claims whose allocation could not be written for certain. Their pods and devices wait until the API server says whether it was.",
	"profile")

// conflicts counts the pods whose devices another scheduler gave away at the same time.
var conflicts = set.Counters("claim_conflicts_total",
	"Pods that gave their devices back before they were bound, because another scheduler had given the same devices to a "+
		"claim. They try again.",
	"profile")

// stale counts the pods whose status named a claim that they do not use.
var stale = set.Counters("claim_status_cleared_total",
	"Pods that were bound without a claim and whose status named one of an earlier attempt. The name was removed.", "profile")

// The values of the label choice.
const (
	choiceTaken = "taken"
	choiceOther = "other"
	choiceNone  = "none"
)

// countChoice counts a pod that got some cards, given those that the policy chose.
func countChoice(profile string, chosen, got cluster.DeviceSet) {
	result := choiceTaken
	switch {
	case chosen == 0:
		result = choiceNone
	case chosen != got:
		result = choiceOther
	}
	choices.WithLabelValues(profile, result).Inc()
}

// Ledger translates the slices and allocations of a scheduler's DRA manager. All profiles of a process share
// the manager and the ledger.
type Ledger struct {
	manager fwk.SharedDRAManager
	shares  shares
	order   order

	holding sync.Mutex
	held    map[*resourceapi.AllocationResult]int // how many pods being bound have it

	mu     sync.Mutex
	shapes map[string]*shape // by node
	last   *View
}

// allLedgers holds the *Ledger of each DRA manager in this process.
var allLedgers sync.Map

// LedgerOf returns the ledger of a scheduler's DRA manager until ctx is done; nil if there is no manager.
func LedgerOf(ctx context.Context, h fwk.Handle) *Ledger {
	m := h.SharedDRAManager()
	if m == nil {
		return nil
	}
	l, known := allLedgers.LoadOrStore(m, &Ledger{manager: m, shapes: map[string]*shape{}})
	if !known {
		context.AfterFunc(ctx, func() { allLedgers.Delete(m) })
	}
	return l.(*Ledger)
}

// View holds the devices that claims use on all nodes, in one state of the cluster. It never changes. A nil View has no nodes.
type View struct {
	ledger *Ledger
	nodes  map[string]*Node
	awaits map[string]bool // see Awaits
}

// Awaits reports whether claims hold GPUs of a node that no slice describes. Such a node has come back before its slices, and nobody can
// say which of its GPUs are free. v may be nil.
func (v *View) Awaits(node string) bool { return v != nil && v.awaits[node] }

// Node returns what claims use on a node; nil if it has no devices of slices.
func (v *View) Node(name string) *Node {
	if v == nil {
		return nil
	}
	return v.nodes[name]
}

// hasMIG reports whether some node has cards with MIG.
func (v *View) hasMIG() bool {
	for _, n := range v.nodes {
		if n.slices != nil {
			return true
		}
	}
	return false
}

// Nodes returns the names of the nodes with devices of slices.
func (v *View) Nodes() iter.Seq[string] {
	if v == nil {
		return func(func(string) bool) {}
	}
	return maps.Keys(v.nodes)
}

// gatherPatience is how long the ledger tries to read allocations that change meanwhile, as upstream's plugin
// does.
const gatherPatience = 5 * time.Second

// View returns the present view, allocations in flight included; nil if no node has devices of slices. As long as nothing changes,
// it returns the same pointer. l may be nil.
func (l *Ledger) View(ctx context.Context) (*View, error) {
	if l == nil {
		return nil, nil
	}
	all, err := l.manager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return nil, fmt.Errorf("list the resource slices: %w", err)
	}
	if !slices.ContainsFunc(all, cards.OfNode) {
		return l.update(nil, nil), nil
	}
	var state *structured.AllocatedState
	err = wait.PollUntilContextTimeout(ctx, time.Microsecond, gatherPatience, true, func(context.Context) (bool, error) {
		state, err = l.gather()
		return err == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("gather the allocated devices: %w", err)
	}
	return l.update(all, state), nil
}

// update returns the view of slices and allocations. What has not changed since the last view is kept.
func (l *Ledger) update(all []*resourceapi.ResourceSlice, state *structured.AllocatedState) *View {
	byNode := map[string][]*resourceapi.ResourceSlice{}
	for _, s := range all {
		if cards.OfNode(s) {
			byNode[*s.Spec.NodeName] = append(byNode[*s.Spec.NodeName], s)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.last
	shapes, view := make(map[string]*shape, len(byNode)), &View{ledger: l, nodes: make(map[string]*Node, len(byNode))}
	same := true
	for name, in := range byNode {
		s := l.shapes[name]
		slices.SortFunc(in, cards.Compare)
		if s == nil || !slices.Equal(s.In, in) { // an informer replaces objects and never changes them
			if s = newShape(in); s == nil {
				continue
			}
		}
		shapes[name] = s
		n := old.Node(name)
		if n == nil || n.shape != s || !n.current(state) {
			before := n
			n = newNode(s, state)
			if before != nil && before.shape == s && before.equal(n) {
				before.made, n = n.made, before
			} else {
				same = false
			}
		}
		view.nodes[name] = n
	}
	l.shapes, view.awaits = shapes, awaited(byNode, state)
	switch {
	case len(view.nodes) == 0:
		l.last = nil
	case !same || old == nil || len(old.nodes) != len(view.nodes) || !maps.Equal(old.awaits, view.awaits):
		l.last = view
	}
	return l.last
}

// Serves reports whether claims serve a resource that a pod requests, on nodes that do not offer it. l may be nil.
func (l *Ledger) Serves(name v1.ResourceName) bool {
	return l != nil && l.manager.DeviceClassResolver().GetDeviceClass(name) != nil
}

// awaited returns the pools whose GPUs are allocated and which have no slice, given the slices by node. A pool of one node has the
// node's name, by convention.
func awaited(byNode map[string][]*resourceapi.ResourceSlice, state *structured.AllocatedState) map[string]bool {
	var out map[string]bool
	look := func(id structured.DeviceID) {
		if pool := id.Pool.String(); byNode[pool] == nil && cards.HasGPUs(id.Driver.String()) {
			if out == nil {
				out = map[string]bool{}
			}
			out[pool] = true
		}
	}
	if state != nil {
		for id := range state.AllocatedDevices {
			look(id)
		}
		for id := range state.AggregatedCapacity {
			look(id)
		}
	}
	return out
}

// matching holds the attributes that all devices of a pod must have in common.
type matching struct {
	attributes []string
	unknown    bool // there are constraints of other kinds, or on some of the requests only
}

// add adds the constraints of a claim whose wants are those from index first.
func (m *matching) add(wants []want, first int, constraints []resourceapi.DeviceConstraint) {
	if len(wants) == first {
		return
	}
	if first > 0 && len(m.attributes) > 0 { // those of one claim do not bind another's devices
		m.unknown = true
	}
	for _, c := range constraints {
		covers := len(c.Requests) == 0 || !slices.ContainsFunc(wants[first:], func(w want) bool {
			parent, _, _ := strings.Cut(w.request, "/")
			return !slices.Contains(c.Requests, w.request) && !slices.Contains(c.Requests, parent)
		})
		if c.MatchAttribute == nil || !covers || first > 0 {
			m.unknown = true
			continue
		}
		m.attributes = append(m.attributes, string(*c.MatchAttribute))
	}
}

// together returns idle cards to take in place of on, which a policy chose for whole devices: as many, as near to each other as there
// are, as the pod's constraints demand. To policies all idle cards of a node are equal. It returns on if the pod asks for other things, or
// if the drivers do not say where their devices are. taken returns what pods without claims use, in thousandths of each card.
func (a *Ask) together(ctx context.Context, n *Node, on cluster.DeviceSet, taken func() []int64) cluster.DeviceSet {
	k := on.Len()
	if k < 2 || a.match.unknown || !a.whole(k) {
		return on
	}
	levels := n.shape.levels(a.match.attributes, k)
	if len(levels) == 0 {
		return on
	}
	from := a.alternatives(ctx, n, on)
	for i, t := range taken() {
		if t > 0 && i < len(n.used) {
			from &^= cluster.Device(i)
		}
	}
	for _, values := range levels[:len(a.match.attributes)] {
		for i, v := range values {
			if v == "" {
				from &^= cluster.Device(i)
			}
		}
	}
	if from.Len() < k || len(a.match.attributes) == 0 && on&^from != 0 {
		return on
	}
	best, spans := cluster.Nearest(levels, from, k, on)
	for _, groups := range spans[:len(a.match.attributes)] {
		if groups != 1 {
			return on // upstream finds out whether there are other devices that match
		}
	}
	return best
}

// whole reports whether the pod asks for k whole cards and nothing else.
func (a *Ask) whole(k int) bool {
	sum := int64(0)
	for i, w := range a.wants {
		if a.sizes[i] < cluster.DeviceMilli {
			return false
		}
		sum += w.count
	}
	return sum == int64(k)
}

// alternatives returns the idle cards of the driver, pool and model of on that offer a whole device to each want; none if on has several of
// those.
func (a *Ask) alternatives(ctx context.Context, n *Node, on cluster.DeviceSet) (from cluster.DeviceSet) {
	models := n.shape.Models()
	like := bits.TrailingZeros64(uint64(on))
	same := func(i int) bool {
		c, l := &n.shape.Cards[i], &n.shape.Cards[like]
		return c.Driver == l.Driver && c.Pool == l.Pool && models[i] == models[like]
	}
	for i := range n.shape.Cards {
		if on.Has(i) && !same(i) {
			return 0
		}
		if n.used[i] == 0 && same(i) {
			from |= cluster.Device(i)
		}
	}
	for _, w := range a.wants {
		offers := cluster.DeviceSet(0)
		parts := n.shape.partsOf(w.capacity)
		for i, ok := range a.satisfying(ctx, n.shape, w) {
			if d := &n.shape.Devices[i]; ok && n.takes(i, parts.at(i)) && sizeOf(d, parts.at(i)) >= cluster.DeviceMilli {
				offers |= cluster.Device(d.Card)
			}
		}
		from &= offers
	}
	return from
}

// levels returns, for each attribute of the cards' location, its value for each card. The attributes in must come first, then those that
// say where k cards are near each other, from the widest to the narrowest, without those that no card has.
func (s *shape) levels(must []string, k int) (out [][]string) {
	for _, name := range must {
		out = append(out, s.Values(name))
	}
	for _, names := range [][]string{
		{"partition" + strconv.Itoa(k)}, {deviceattribute.StandardDeviceAttributePrefix + "numaNode", "numaNode"},
		{string(deviceattribute.StandardDeviceAttributePCIeRoot)},
	} {
		for _, name := range names {
			if values := s.Values(name); strings.Join(values, "") != "" {
				out = append(out, values)
				break
			}
		}
	}
	return out
}
