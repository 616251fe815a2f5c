package dra

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/cards"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/cluster/mig"
)

// Ask holds the demand of one pending pod on the cards, by claims and extended resources, in one scheduling cycle. Nothing writes to it
// once it is made.
type Ask struct {
	ledger *Ledger
	view   *View
	wants  []want
	cel    *cel.Cache
	sizes  []int64 // of the devices that each want takes, in thousandths of a card
	match  matching

	partition mig.Profile

	pod   *v1.Pod
	eased bool     // some request has alternatives
	nodes []string // whose devices say which alternative is meant
}

// want is one request of a claim. A request with alternatives has a want for the first of them that some free device
// in the cluster satisfies, else for the first that some device does.
type want struct {
	request     string                       // its name in the claim
	selectors   []resourceapi.DeviceSelector // of the class and the request
	tolerations []resourceapi.DeviceToleration
	capacity    capacity
	count       int64
}

const askKey = CycleKey[*Ask]("gnnsched/" + Name)

// Asked returns what the pod of a scheduling cycle asks by claims; nil if it asks nothing that a policy can
// choose.
func Asked(state fwk.CycleState) *Ask { return askKey.Read(state) }

// View returns the view that the ask was made with. a may be nil.
func (a *Ask) View() *View {
	if a == nil {
		return nil
	}
	return a.view
}

// Apply sets the GPUs that pod requests: as many whole cards as its claims take, or the share of one. Several
// shares count as the whole cards that they take together. a may be nil.
func (a *Ask) Apply(pod *cluster.Pod) {
	if a == nil {
		return
	}
	var t takes
	for i, w := range a.wants {
		t.add(w.count, a.sizes[i])
	}
	t.set(&pod.Requests)
	pod.Partition = a.partition
}

// Slices returns the used memory slices of a card of a node.
func (a *Ask) Slices(node string, card int) mig.Slices {
	if n := a.view.Node(node); n != nil && card < len(n.slices) {
		return n.slices[card]
	}
	return mig.All
}

// setPartition sets the profile that the pod requests.
func (a *Ask) setPartition(ctx context.Context) {
	if len(a.wants) != 1 || a.wants[0].count != 1 || !a.view.hasMIG() {
		return
	}
	found := mig.None
	for _, name := range a.nodes {
		n := a.view.nodes[name]
		for i, ok := range a.satisfying(ctx, n.shape, a.wants[0]) {
			p := n.shape.Devices[i].Profile
			if !ok || p == found {
				continue
			}
			if p == mig.None || found != mig.None {
				return // devices of several kinds will do
			}
			found = p
		}
	}
	a.partition = found
}

// takes sums up what claims take.
type takes struct {
	whole  int64 // cards
	parts  int64 // shares and partitions
	shared int64 // thousandths of all parts
}

// add adds a number of devices of a size in thousandths of a card.
func (t *takes) add(count, size int64) {
	if size >= cluster.DeviceMilli {
		t.whole += count
	} else if size > 0 {
		t.parts += count
		t.shared += count * size
	}
}

// set sets the GPUs of r.
func (t *takes) set(r *cluster.Resources) {
	r.GPU, r.GPUMilli = t.whole, 0
	switch {
	case t.parts == 1 && t.whole == 0:
		r.GPUMilli = t.shared
	case t.parts > 0:
		r.GPU += (t.shared + cluster.DeviceMilli - 1) / cluster.DeviceMilli
	}
	r.GPU = min(r.GPU, cluster.MaxDevices)
}

// Closed returns the cards of a node that seem to have room for the pod by their thousandths, but offer it no
// device: its claims select none of theirs, or no partition of the size is free. a may be nil.
func (a *Ask) Closed(ctx context.Context, node string) (closed cluster.DeviceSet) {
	if a == nil {
		return 0
	}
	n := a.view.Node(node)
	if n == nil {
		return 0
	}
	least := slices.Min(a.sizes)
	for i, used := range n.used {
		if used+least <= cluster.DeviceMilli {
			closed |= cluster.Device(i)
		}
	}
	for _, w := range a.wants {
		parts := n.shape.partsOf(w.capacity)
		for i, ok := range a.satisfying(ctx, n.shape, w) {
			d := &n.shape.Devices[i]
			if ok && closed.Has(d.Card) && n.takes(i, parts.at(i)) {
				closed &^= cluster.Device(d.Card)
			}
		}
	}
	return closed
}

// newAsk returns what the pod asks; nil if that is nothing that a policy can choose.
func newAsk(ctx context.Context, l *Ledger, view *View, celCache *cel.Cache, pod *v1.Pod) *Ask {
	if view == nil {
		return nil
	}
	return (&Ask{ledger: l, view: view, cel: celCache, pod: pod, nodes: slices.Sorted(maps.Keys(view.nodes))}).read(ctx)
}

// Among returns what the pod asks of some nodes' devices: with alternatives, the first for which one of the nodes has enough free ones.
// Nodes that upstream scores alike give the pod the same alternative. It returns a itself if the nodes make no difference. a may be nil.
func (a *Ask) Among(ctx context.Context, nodes iter.Seq[string]) *Ask {
	if a == nil || !a.eased {
		return a
	}
	here := &Ask{ledger: a.ledger, view: a.view, cel: a.cel, pod: a.pod}
	for name := range nodes {
		if a.view.Node(name) != nil {
			here.nodes = append(here.nodes, name)
		}
	}
	slices.Sort(here.nodes)
	here = here.read(ctx)
	if here == nil || here.partition == a.partition && slices.Equal(here.sizes, a.sizes) &&
		slices.EqualFunc(here.wants, a.wants, func(x, y want) bool { return x.request == y.request }) {
		return a
	}
	return here
}

// read adds the requests of the pod's claims, and its GPUs if a claim serves them. It returns a; nil if that is nothing that a policy can
// choose.
func (a *Ask) read(ctx context.Context) *Ask {
	l, pod := a.ledger, a.pod
	for i := range pod.Spec.ResourceClaims {
		name, owned, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		c, err := l.manager.ResourceClaims().Get(pod.Namespace, *name)
		if err != nil || owned && resourceclaim.IsForPod(pod, c, false) != nil || c.Status.Allocation != nil {
			continue
		}
		before := len(a.wants)
		for j := range c.Spec.Devices.Requests {
			if !a.add(ctx, &c.Spec.Devices.Requests[j]) {
				return nil
			}
		}
		a.match.add(a.wants, before, c.Spec.Devices.Constraints)
	}
	if gpus := kube.Requests(pod).GPU; gpus > 0 && l.Serves(kube.GPUResource) {
		class := l.manager.DeviceClassResolver().GetDeviceClass(kube.GPUResource)
		a.try(ctx, class.Name, want{count: gpus})
		a.match.add(a.wants, len(a.wants)-1, nil)
	}
	if !slices.ContainsFunc(a.sizes, func(size int64) bool { return size > 0 }) {
		return nil
	}
	a.setPartition(ctx)
	return a
}

// add adds a request. It returns false for a request of all devices, which leaves no choice.
func (a *Ask) add(ctx context.Context, r *resourceapi.DeviceRequest) bool {
	if e := r.Exactly; e != nil {
		if e.AllocationMode == resourceapi.DeviceAllocationModeAll {
			return false
		}
		if e.AdminAccess == nil || !*e.AdminAccess { // which takes nothing
			a.try(ctx, e.DeviceClassName, want{request: r.Name, selectors: e.Selectors, tolerations: e.Tolerations, capacity: capacityOf(e.Capacity),
				count: e.Count})
		}
		return true
	}
	a.eased = true
	before := len(a.wants)
	for _, s := range r.FirstAvailable {
		if s.AllocationMode == resourceapi.DeviceAllocationModeAll {
			return false
		}
		free := a.try(ctx, s.DeviceClassName, want{request: r.Name + "/" + s.Name, selectors: s.Selectors, tolerations: s.Tolerations,
			capacity: capacityOf(s.Capacity), count: s.Count})
		if last := len(a.wants) - 1; free && last > before { // in place of one that is not free
			a.wants[before], a.sizes[before] = a.wants[last], a.sizes[last]
		}
		a.wants, a.sizes = a.wants[:min(before+1, len(a.wants))], a.sizes[:min(before+1, len(a.sizes))]
		if free {
			break
		}
	}
	return true
}

// try adds a want if some device of the nodes satisfies it, and reports whether a node has as many free ones as it wants.
func (a *Ask) try(ctx context.Context, class string, w want) (free bool) {
	c, err := a.ledger.manager.DeviceClasses().Get(class)
	if err != nil {
		return false
	}
	w.selectors, w.count = slices.Concat(c.Spec.Selectors, w.selectors), max(w.count, 1)
	size, found, free := a.size(ctx, w)
	if found {
		a.wants, a.sizes = append(a.wants, w), append(a.sizes, size)
	}
	return free
}

// size returns the size of the devices that satisfy a want: that of the first free one, else of the first.
func (a *Ask) size(ctx context.Context, w want) (size int64, found, free bool) {
	some := false // is free
	for _, name := range a.nodes {
		n, left := a.view.nodes[name], w.count
		parts := n.shape.partsOf(w.capacity)
		for i, ok := range a.satisfying(ctx, n.shape, w) {
			if !ok {
				continue
			}
			s, room := sizeOf(&n.shape.Devices[i], parts.at(i)), n.takes(i, parts.at(i))
			if !found || room && !some {
				size = s
			}
			found, some = true, some || room
			if room {
				left--
			}
			if left == 0 {
				return size, true, true
			}
		}
	}
	return size, found, false
}

// maxMatched is how many expressions a shape remembers. Pods' owners write them, so there is no end to them.
const maxMatched = 256

// satisfying returns for each device of a shape whether it satisfies the selectors of a want, and the want
// tolerates its taints. The caller must not change it.
func (a *Ask) satisfying(ctx context.Context, s *shape, w want) []bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []bool
	for i, selector := range w.selectors {
		if selector.CEL == nil {
			return make([]bool, len(s.Devices)) // a kind of selector that is not known
		}
		selected := s.selects(ctx, a.cel, selector.CEL.Expression)
		if i == 0 {
			out = selected
			continue
		}
		if i == 1 {
			out = slices.Clone(out)
		}
		for j, ok := range selected {
			out[j] = out[j] && ok
		}
	}
	if out == nil {
		out = slices.Repeat([]bool{true}, len(s.Devices))
	}
	return untainted(s, out, w)
}

// untainted returns selected without the devices whose taints the want does not tolerate.
func untainted(s *shape, selected []bool, w want) []bool {
	copied := false
	for i := range s.Devices {
		if selected[i] && !tolerates(w, s.Devices[i].Taints) {
			if !copied {
				selected, copied = slices.Clone(selected), true
			}
			selected[i] = false
		}
	}
	return selected
}

func tolerates(w want, taints []resourceapi.DeviceTaint) bool {
	for _, t := range taints {
		if t.Effect == resourceapi.DeviceTaintEffectNone {
			continue
		}
		if !slices.ContainsFunc(w.tolerations, func(l resourceapi.DeviceToleration) bool { return resourceclaim.ToleratesTaint(l, t) }) {
			return false
		}
	}
	return true
}

// selects returns which devices an expression selects. One on which it fails is not selected; upstream's
// allocator reports the error. The caller holds the lock.
func (s *shape) selects(ctx context.Context, cache *cel.Cache, expression string) []bool {
	if out, known := s.matched[expression]; known {
		return out
	}
	out := make([]bool, len(s.Devices))
	if compiled := cache.GetOrCompile(expression); compiled.Error == nil {
		for i, d := range s.Devices {
			ok, _, err := compiled.DeviceMatches(ctx, cel.Device{Driver: d.Driver, AllowMultipleAllocations: d.AllowMultipleAllocations,
				Attributes: d.Attributes, Capacity: d.Capacity})
			out[i] = ok && err == nil
		}
	}
	if len(s.matched) >= maxMatched {
		clear(s.matched)
	}
	s.matched[expression] = out
	return out
}

// shape holds the cards of a node. It is immutable but for what it remembers of wants.
type shape struct {
	*cards.Set
	ids []structured.DeviceID // of Devices

	mu      sync.Mutex
	matched map[string][]bool    // which devices an expression selects; see selects
	sizes   map[string]partSizes // by the capacity that is asked for; see partsOf
}

// newShape reads the slices of one node; nil if there are no cards that a policy can know.
func newShape(in []*resourceapi.ResourceSlice) *shape {
	set := cards.Read(in)
	if set == nil {
		return nil
	}
	s := &shape{Set: set, matched: map[string][]bool{}, sizes: map[string]partSizes{}}
	for _, d := range set.Devices {
		s.ids = append(s.ids, structured.MakeDeviceID(d.Driver, set.Cards[d.Card].Pool, d.Name))
	}
	return s
}
