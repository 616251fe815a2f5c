package dra

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	configlatest "k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/cards"
	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/plugin/userconfig"
)

// Name is the plugin's name in KubeSchedulerConfiguration. A profile that has it must disable upstream's
// DynamicResources: each would allocate.
const Name = userconfig.LearnedDevices

// Host is the rest of the profiles, each of which h stands for.
type Host interface {
	// Choose returns the cards that the profile's policy chooses for a question;
	// none if it has no opinion. For a pod that requests one MIG partition it also returns the memory slices of the partition;
	// none if any will do.
	Choose(ctx context.Context, h fwk.Handle, q Question) (cluster.DeviceSet, mig.Slices)
	// Taken returns what pods without claims use of the cards of nodes that offer them to such pods, too, by
	// node and in thousandths. Nodes of which they use nothing are left out.
	Taken(h fwk.Handle, view *View) map[string][]int64
}

// Question asks for the cards that the pod of a scheduling cycle should get on a node.
type Question struct {
	State fwk.CycleState
	Pod   *v1.Pod
	Node  string
	Ask   *Ask // what the pod asks of the node
}

// plugin is upstream's DynamicResources with all its extension points.
type plugin struct {
	*dynamicresources.DynamicResources
	handle  fwk.Handle
	manager *manager
	cel     *cel.Cache
	host    Host
	// keepsNames is set once the API server has kept a name in a pod's status that was to be removed; see clearStale.
	keepsNames atomic.Bool
}

var (
	_ fwk.PreFilterPlugin  = &plugin{}
	_ fwk.FilterPlugin     = &plugin{}
	_ fwk.PostFilterPlugin = &plugin{}
	_ fwk.ReservePlugin    = &plugin{}
	_ fwk.PreBindPlugin    = &plugin{}
)

// maxExpressions is how many compiled selectors are kept.
const maxExpressions = 100

// New returns the plugin's factory. The plugin has no arguments.
func New(host Host) fwkruntime.PluginFactory {
	return func(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		set.Register()
		args, err := upstreamArgs()
		if err != nil {
			return nil, err
		}
		m := &manager{SharedDRAManager: h.SharedDRAManager(), ledger: LedgerOf(ctx, h)}
		m.taken = func(v *View) map[string][]int64 { return host.Taken(h, v) }
		if err := m.ledger.order.follow(h.SharedInformerFactory()); err != nil {
			return nil, fmt.Errorf("follow the claims: %w", err)
		}
		// The registry's factory knows the feature gates.
		made, err := plugins.NewInTreeRegistry()[dynamicresources.Name](ctx, args, handle{h, m})
		if err != nil {
			return nil, fmt.Errorf("make upstream's %s: %w", dynamicresources.Name, err)
		}
		gates := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
		return &plugin{
			DynamicResources: made.(*dynamicresources.DynamicResources), handle: h, manager: m, host: host,
			cel: cel.NewCache(maxExpressions, cel.Features{EnableConsumableCapacity: gates.EnableDRAConsumableCapacity,
				EnableListTypeAttributes: gates.EnableDRAListTypeAttributes}),
		}, nil
	}
}

// upstreamArgs returns the arguments that upstream's plugin has in the default profile.
func upstreamArgs() (runtime.Object, error) {
	c, err := configlatest.Default()
	if err != nil {
		return nil, fmt.Errorf("default scheduler configuration: %w", err)
	}
	for _, p := range c.Profiles[0].PluginConfig {
		if p.Name == dynamicresources.Name {
			return p.Args, nil
		}
	}
	return nil, fmt.Errorf("the default profile has no arguments for %s", dynamicresources.Name)
}

// Name implements fwk.Plugin.
func (p *plugin) Name() string { return Name }

// PreFilter implements fwk.PreFilterPlugin: upstream's, and what the pod asks for LearnedScore.
func (p *plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	askKey.Delete(state)
	reservedKey.Delete(state)
	c := &cycle{}
	result, status := p.preFilter(ctx, state, pod, nodes, c)
	if status.IsSkip() && p.stuck(pod) { // no class serves what it requests
		return nil, stuckStatus(pod)
	}
	if status.IsSuccess() && c.view != nil { // otherwise upstream has nothing to allocate
		if a := newAsk(ctx, p.manager.ledger, c.view, p.cel, pod); a != nil {
			askKey.Write(state, a)
		}
	}
	return result, status
}

func (p *plugin) preFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo,
	c *cycle) (*fwk.PreFilterResult, *fwk.Status) {
	p.manager.cycle.Store(c)
	defer p.manager.cycle.Store(nil)
	return p.DynamicResources.PreFilter(ctx, state, pod, nodes)
}

// PostFilter implements fwk.PostFilterPlugin: upstream's. Where another plugin refused the pod before PreFilter, there is nothing to
// free, and upstream's would end in the error "not found".
func (p *plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if _, err := state.Read(dynamicresources.Name); err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	return p.DynamicResources.PostFilter(ctx, state, pod, nodes)
}

// Reserve implements fwk.ReservePlugin: upstream's, after upstream allocated again with the devices that
// the profile's policy chooses at the front.
func (p *plugin) Reserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	var c *choice
	// The pods of a group share claims that are reserved together, so upstream's allocation stays.
	if a := Asked(state); a != nil && a.view.Node(node) != nil && state.GetPodGroupSchedulingCycle() == nil {
		c = &choice{node: a.view.Node(node), name: node}
		if status := p.allocate(ctx, state, pod, c); !status.IsSuccess() {
			return status
		}
	}
	var given []*resourceapi.ResourceClaim
	p.manager.reserving.Store(&given)
	defer p.manager.reserving.Store(nil)
	status := p.DynamicResources.Reserve(ctx, state, pod, node)
	if !status.IsSuccess() {
		return status
	}
	r := &reserved{claims: p.manager.ledger.allClaims(pod, given), given: given}
	if len(r.claims) == 0 { // it has none, or the node itself offers what it requests
		return status
	}
	if r.node = p.manager.ledger.node(node); c != nil && len(given) > 0 {
		r.node, r.cards = c.node, c.node.cardsOf(given)
		countChoice(p.handle.ProfileName(), c.on, r.cards)
	}
	reservedKey.Write(state, r)
	return status
}

// allocate replaces the node's allocation in the cycle's state, if the policy chooses devices.
func (p *plugin) allocate(ctx context.Context, state fwk.CycleState, pod *v1.Pod, c *choice) *fwk.Status {
	a := Asked(state).Among(ctx, slices.Values([]string{c.name}))
	if c.on, c.at = p.host.Choose(ctx, p.handle, Question{State: state, Pod: pod, Node: c.name, Ask: a}); c.on == 0 {
		return nil
	}
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(c.name)
	if err != nil {
		return fwk.AsStatus(err)
	}
	c.on = a.together(ctx, c.node, c.on, func() []int64 { return p.manager.taken(a.view)[c.name] })
	if _, status := p.preFilter(ctx, state, pod, []fwk.NodeInfo{info}, &cycle{choice: c}); !status.IsSuccess() {
		return status
	}
	return p.Filter(ctx, state, pod, info)
}

// CycleKey names a value in the state of a cycle.
type CycleKey[T any] string

// data is a value in a state. Clones of the state share what it points to.
type data[T any] struct{ value T }

// Clone implements fwk.StateData.
func (d data[T]) Clone() fwk.StateData { return d }

// Write keeps a value, in place of an earlier one.
func (k CycleKey[T]) Write(state fwk.CycleState, value T) {
	state.Write(fwk.StateKey(k), data[T]{value})
}

// Find returns the value that is kept, and whether there is one.
func (k CycleKey[T]) Find(state fwk.CycleState) (value T, has bool) {
	d, err := state.Read(fwk.StateKey(k))
	if err != nil {
		return value, false
	}
	return d.(data[T]).value, true
}

// Read returns the value that is kept; the zero value if there is none.
func (k CycleKey[T]) Read(state fwk.CycleState) T {
	value, _ := k.Find(state)
	return value
}

// Delete forgets the value.
func (k CycleKey[T]) Delete(state fwk.CycleState) { state.Delete(fwk.StateKey(k)) }

// Node holds what claims use of a node's cards in one state of the cluster. It never changes: equal pointers mean
// that nothing has changed.
type Node struct {
	shape  *shape
	used   []int64 // thousandths of each card
	busy   []bool  // devices that are allocated: whole, or to at least one claim that shares them
	shares []int64 // thousandths of each shared device that claims take

	slices []mig.Slices // used memory slices of each card, as in cluster.Node

	made []allocated // what the node was made of, by device; the ledger's lock guards it

	countOnce sync.Once
	fits      []bool // see countFits; nil if no card has counters
}

// allocated is the use of a device in a state.
type allocated struct {
	whole, shared bool
	shares        structured.ConsumedCapacity // sums of shares never change
}

func allocatedOf(state *structured.AllocatedState, id structured.DeviceID) allocated {
	taken, shared := state.AggregatedCapacity[id]
	return allocated{whole: state.AllocatedDevices.Has(id), shared: shared, shares: taken}
}

// same reports whether both are the same without counting.
func (a allocated) same(b allocated) bool {
	return a.whole == b.whole && a.shared == b.shared && reflect.ValueOf(a.shares).UnsafePointer() == reflect.ValueOf(b.shares).UnsafePointer()
}

// current reports whether the node was made of the same allocations as state has.
func (n *Node) current(state *structured.AllocatedState) bool {
	for i, id := range n.shape.ids {
		if !n.made[i].same(allocatedOf(state, id)) {
			return false
		}
	}
	return true
}

// newNode counts the allocations of state on the shape's cards.
func newNode(s *shape, state *structured.AllocatedState) *Node {
	n := &Node{shape: s, used: make([]int64, len(s.Cards)), busy: make([]bool, len(s.Devices)), shares: make([]int64, len(s.Devices)),
		made: make([]allocated, len(s.Devices))}
	var left []map[string]int64
	for i := range s.Devices {
		d := &s.Devices[i]
		has := allocatedOf(state, s.ids[i])
		n.made[i] = has
		switch {
		case has.shared:
			n.busy[i], n.shares[i] = true, sharesUsed(d.Device, has.shares)
			n.used[d.Card] += d.OfCard(n.shares[i])
		case !has.whole:
		case s.Cards[d.Card].Counters == nil:
			n.busy[i] = true
			n.used[d.Card] += d.Milli
		default:
			n.busy[i] = true
			if left == nil {
				left = make([]map[string]int64, len(s.Cards))
			}
			left[d.Card] = plus(left[d.Card], cards.Counters(d.ConsumesCounters[0].Counters))
		}
	}
	for i, taken := range left {
		n.used[i] += cards.Share(taken, s.Cards[i].Counters)
	}
	n.setSlices()
	return n
}

// equal reports whether the same is used of the same cards.
func (n *Node) equal(other *Node) bool {
	return slices.Equal(n.busy, other.busy) && slices.Equal(n.used, other.used) && slices.Equal(n.shares, other.shares)
}

// setSlices sets the used memory slices, if some card has MIG. What partitions with known profiles use of a card is the same with any
// driver's counters.
func (n *Node) setSlices() {
	if !slices.ContainsFunc(n.shape.Cards, func(c cards.Card) bool { return c.MIG }) {
		return
	}
	n.slices = make([]mig.Slices, len(n.shape.Cards))
	compute, other := make([]int, len(n.slices)), make([]bool, len(n.slices))
	for i, c := range n.shape.Cards {
		if !c.MIG {
			n.slices[i], other[i] = mig.All, true
		}
	}
	for i := range n.shape.Devices {
		d := &n.shape.Devices[i]
		if !n.busy[i] || !n.shape.Cards[d.Card].MIG {
			continue
		}
		n.slices[d.Card] |= d.Slices
		compute[d.Card] += d.Profile.Compute()
		other[d.Card] = other[d.Card] || d.Profile == mig.None || d.Shared()
	}
	for i := range n.used {
		if !other[i] {
			n.used[i] = mig.Used(compute[i], n.slices[i].Len())
		}
	}
}

// sharesUsed returns which part of a device its shares take, in thousandths.
func sharesUsed(d *resourceapi.Device, taken structured.ConsumedCapacity) (milli int64) {
	for name, q := range taken {
		whole := d.Capacity[name].Value
		milli = max(milli, cards.Thousandths(q.AsApproximateFloat64(), whole.AsApproximateFloat64()))
	}
	return milli
}

func plus(a, b map[string]int64) map[string]int64 {
	if a == nil {
		return b
	}
	for name, v := range b {
		a[name] += v
	}
	return a
}

// Others returns how much more than claims is used of each card, given all that is used of a node's devices; nil for
// nothing.
func (n *Node) Others(used []int64) (out []int64) {
	for i, u := range used[:min(len(used), len(n.used))] {
		if more := u - n.used[i]; more > 0 {
			if out == nil {
				out = make([]int64, len(n.used))
			}
			out[i] = min(more, cluster.DeviceMilli)
		}
	}
	return out
}

// takes reports whether a request for a part of device i, in thousandths of it, fits what is left. Of a device's capacities, only the one
// of which claims take most counts.
func (n *Node) takes(i int, part int64) bool {
	if n.shape.Devices[i].Shared() {
		if n.shares[i]+part > cluster.DeviceMilli {
			return false
		}
	} else if n.busy[i] || part > cluster.DeviceMilli {
		return false
	}
	if n.busy[i] { // the first share of a partition took its counters
		return true
	}
	n.countOnce.Do(n.countFits)
	return n.fits == nil || n.fits[i]
}

// countFits sets which devices fit beside those that are busy, by the counters of their cards. Cards without counters have no such limit.
func (n *Node) countFits() {
	if !slices.ContainsFunc(n.shape.Cards, func(c cards.Card) bool { return c.Counters != nil }) {
		return
	}
	n.fits = make([]bool, len(n.shape.Devices))
	taken := make([]map[string]int64, len(n.shape.Cards))
	for i := range n.shape.Devices {
		if d := &n.shape.Devices[i]; n.busy[i] && n.shape.Cards[d.Card].Counters != nil {
			taken[d.Card] = plus(taken[d.Card], cards.Counters(d.ConsumesCounters[0].Counters))
		}
	}
	for i := range n.shape.Devices {
		d := &n.shape.Devices[i]
		whole := n.shape.Cards[d.Card].Counters
		n.fits[i] = whole == nil || within(plus(cards.Counters(d.ConsumesCounters[0].Counters), taken[d.Card]), whole)
	}
}

// within reports whether no counter is above that of the whole.
func within(taken, whole map[string]int64) bool {
	for name, t := range taken {
		if t > whole[name] {
			return false
		}
	}
	return true
}

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
