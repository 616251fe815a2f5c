package dra

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
	"k8s.io/utils/ptr"

	"gnnsched/internal/fatal"
)

// wholeClaim returns a claim with whole devices of node n.
func wholeClaim(name string, devices ...string) *resourceapi.ResourceClaim {
	c := shareClaim(name, "", "1")
	c.Status.Allocation.Devices.Results = nil
	for _, d := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Driver: driver, Pool: "n", Device: d})
	}
	return c
}

// orderSlices offer gpu-0 and gpu-1 whole, shared with 1000 shares, the partitions low, high and all of one card, and those of a
// new one whose counters are in a slice that is not published yet.
func orderSlices() []*resourceapi.ResourceSlice {
	s, counters := sliceOf("s-0", 2, "gpu-0", "gpu-1", "shared", "low", "high", "all", "new-low", "new-all"), sliceOf("s-1", 2)
	for i := range s.Spec.Devices {
		d := &s.Spec.Devices[i]
		d.AllowMultipleAllocations = ptr.To(d.Name == "shared")
		if amount := map[string]string{"low": "4", "high": "4", "all": "8"}[strings.TrimPrefix(d.Name, "new-")]; amount != "" {
			set := map[bool]string{false: "card", true: "new card"}[strings.HasPrefix(d.Name, "new-")]
			d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: set,
				Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(amount)}}}}
		}
	}
	counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "card",
		Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("8")}}}}
	old := sliceOf("s-2", 1, "gpu-0") // of a generation that is over
	old.Spec.Pool.Generation = 0
	return []*resourceapi.ResourceSlice{old, s, counters}
}

// Of claims that got the same device, or together more than there is, the later one has to give it back; with others, also the first.
func TestOverdrawn(t *testing.T) {
	admin := wholeClaim("admin", "gpu-0")
	admin.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
	free := wholeClaim("a", "gpu-0")
	free.Status.Allocation = nil
	for name, c := range map[string]struct {
		claims []*resourceapi.ResourceClaim // in the order of their events
		gone   string                       // a claim that is deleted in the end
		want   string                       // CLAIM=DEVICE for each that has to give a device back
		others string                       // the same, with others
	}{
		"two whole devices": {claims: []*resourceapi.ResourceClaim{wholeClaim("a", "gpu-0"), wholeClaim("b", "gpu-1")}},
		"one device twice": {claims: []*resourceapi.ResourceClaim{wholeClaim("a", "gpu-0"), wholeClaim("b", "gpu-1", "gpu-0"),
			wholeClaim("c", "gpu-1")}, want: "b=gpu-0 c=gpu-1", others: "a=gpu-0 b=gpu-1 c=gpu-1"},
		"the first gave back":  {claims: []*resourceapi.ResourceClaim{wholeClaim("a", "gpu-0"), wholeClaim("b", "gpu-0"), free}},
		"the first is deleted": {claims: []*resourceapi.ResourceClaim{wholeClaim("a", "gpu-0"), wholeClaim("b", "gpu-0")}, gone: "a"},
		"got it again": {claims: []*resourceapi.ResourceClaim{wholeClaim("a", "gpu-0"), wholeClaim("b", "gpu-0"), free,
			wholeClaim("a", "gpu-0")}, want: "a=gpu-0", others: "a=gpu-0 b=gpu-0"},
		"said again": {claims: []*resourceapi.ResourceClaim{wholeClaim("a", "gpu-0"), wholeClaim("b", "gpu-0"),
			wholeClaim("a", "gpu-0")}, want: "b=gpu-0", others: "a=gpu-0 b=gpu-0"},
		"admin access": {claims: []*resourceapi.ResourceClaim{admin, wholeClaim("b", "gpu-0")}},
		"shares":       {claims: []*resourceapi.ResourceClaim{shareClaim("a", "shared", "500"), shareClaim("b", "shared", "500")}},
		"too many shares": {claims: []*resourceapi.ResourceClaim{shareClaim("a", "shared", "500"), shareClaim("b", "shared", "460"),
			shareClaim("c", "shared", "460")}, want: "c=shared", others: "a=shared b=shared c=shared"},
		"a share and all": {claims: []*resourceapi.ResourceClaim{shareClaim("a", "shared", "1"), wholeClaim("b", "shared"),
			shareClaim("c", "shared", "1")}, want: "b=shared c=shared", others: "a=shared b=shared c=shared"},
		"partitions": {claims: []*resourceapi.ResourceClaim{wholeClaim("a", "low"), wholeClaim("b", "high")}},
		"too many partitions": {claims: []*resourceapi.ResourceClaim{wholeClaim("a", "low"), wholeClaim("b", "all"), wholeClaim("c", "gpu-0")},
			want: "b=all", others: "a=low b=all"},
		"counters come later": {claims: []*resourceapi.ResourceClaim{wholeClaim("a", "new-low"), wholeClaim("b", "new-all")}},
		"not published": {claims: []*resourceapi.ResourceClaim{wholeClaim("a", "old"), wholeClaim("b", "old"),
			shareClaim("c", "gone", "2000")}, want: "b=old", others: "a=old b=old"},
	} {
		t.Run(name, func(t *testing.T) {
			var o order
			h, known := o.handler(), map[string]*resourceapi.ResourceClaim{}
			for i, claim := range c.claims {
				claim.ResourceVersion = strconv.Itoa(i + 1)
				if was := known[claim.Name]; was != nil {
					h.OnUpdate(was, claim)
				} else {
					h.OnAdd(claim, false)
				}
				known[claim.Name] = claim
			}
			if c.gone != "" {
				h.OnDelete(cache.DeletedFinalStateUnknown{Obj: known[c.gone]})
			}
			for others, want := range map[bool]string{false: c.want, true: c.others} {
				var got []string
				for _, name := range slices.Sorted(maps.Keys(known)) {
					if device := o.overdrawn(types.UID(name), orderSlices(), others); device != "" {
						got = append(got, name+"="+strings.TrimPrefix(device, driver+"/n/"))
					}
				}
				if strings.Join(got, " ") != want {
					t.Errorf("with others %v: %v, want %q", others, got, want)
				}
			}
			for _, claim := range known {
				h.OnDelete(claim)
			}
			if len(o.claims) > 0 || len(o.holders) > 0 {
				t.Errorf("left: %v, %v", o.claims, o.holders)
			}
		})
	}
}

// After a broken watch, claims come in the order of their names. The one that was written first was first all the same, also after it was
// written again.
func TestListedByName(t *testing.T) {
	var o order
	h, a, b := o.handler(), wholeClaim("a", "gpu-0"), wholeClaim("b", "gpu-0")
	a.ResourceVersion, b.ResourceVersion = "10", "9"
	h.OnAdd(a, true)
	h.OnAdd(b, true)
	again := b.DeepCopy()
	again.ResourceVersion = "11"
	h.OnUpdate(b, again)
	h.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/c"})
	if ofA, ofB := o.overdrawn("a", orderSlices(), false), o.overdrawn("b", orderSlices(), false); ofA == "" || ofB != "" {
		t.Errorf("a was first: %q and %q", ofA, ofB)
	}
}

// A wait ends when the claim is seen with an allocation, before or after it began. What it had in an earlier version does not end it.
func TestSeen(t *testing.T) {
	var o order
	h := o.handler()
	claim := func(name, version string) *resourceapi.ResourceClaim {
		c := wholeClaim(name, "gpu-0")
		c.ResourceVersion = version
		return c
	}
	ended := func(seen <-chan struct{}) bool {
		select {
		case <-seen:
			return true
		default:
			return false
		}
	}
	before := o.seen(claim("a", "2"))
	h.OnAdd(claim("b", "3"), false)
	if ended(before) {
		t.Error("a is seen")
	}
	h.OnAdd(claim("a", "2"), false)
	if !ended(before) || !ended(o.seen(claim("a", "2"))) || !ended(o.seen(claim("b", "2"))) {
		t.Error("a and b are not seen")
	}
	next := o.seen(claim("a", "4"))
	free := claim("a", "3")
	free.Status.Allocation = nil
	h.OnUpdate(claim("a", "2"), free)
	if ended(next) {
		t.Error("what a gave back counts")
	}
	h.OnUpdate(free, claim("a", "4"))
	if !ended(next) {
		t.Error("a is not seen again")
	}
	o.seen(claim("c", "5"))
	o.forget("c")
	if len(o.waiting) > 0 {
		t.Errorf("waiting: %v", o.waiting)
	}
}

// Two claims have a device and one gives it back. Upstream's state then has the device for free, ours for taken as long as the other has
// it.
func TestGivenBackOnce(t *testing.T) {
	l, upstream := upstreamLedger(t, orderSlices()...)
	ours := l.order.handler()
	a, b := wholeClaim("a", "gpu-0"), wholeClaim("b", "gpu-0")
	var back []*resourceapi.ResourceClaim
	for _, c := range []*resourceapi.ResourceClaim{a, b} {
		c = c.DeepCopy()
		c.ResourceVersion, c.Status.Allocation = "3", nil
		back = append(back, c)
	}
	taken := func() (upstreams, here bool) {
		t.Helper()
		theirs := fatal.Value(l.manager.ResourceClaims().GatherAllocatedState())(t)
		state := fatal.Value(l.gather())(t)
		id := structured.MakeDeviceID(driver, "n", "gpu-0")
		return theirs.AllocatedDevices.Has(id), state.AllocatedDevices.Has(id)
	}
	for _, h := range []cache.ResourceEventHandler{upstream, ours} {
		h.OnAdd(a, false)
		h.OnAdd(b, false)
		h.OnUpdate(b, back[1])
	}
	if theirs, here := taken(); theirs || !here {
		t.Errorf("taken: %v upstream, %v here", theirs, here)
	}
	for _, h := range []cache.ResourceEventHandler{upstream, ours} {
		h.OnUpdate(a, back[0])
	}
	if theirs, here := taken(); theirs || here || len(l.order.twice) > 0 {
		t.Errorf("taken: %v upstream, %v here, noted: %v", theirs, here, l.order.twice)
	}
}

// claimEvents is an informer whose events a test sends.
type claimEvents struct{ cache.ResourceEventHandler }

func (e *claimEvents) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	e.ResourceEventHandler = h
	return nil, nil
}

// upstreamLedger returns a ledger of upstream's own manager, which knows some slices, and the claims whose events are sent.
func upstreamLedger(t testing.TB, in ...*resourceapi.ResourceSlice) (*Ledger, *claimEvents) {
	t.Helper()
	ctx, factory := t.Context(), informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	tracked := fatal.Value(resourceslicetracker.StartTracker(ctx,
		resourceslicetracker.Options{SliceInformer: factory.Resource().V1().ResourceSlices()}))(t)
	for _, s := range in {
		fatal.If(t, factory.Resource().V1().ResourceSlices().Informer().GetIndexer().Add(s))
	}
	events := &claimEvents{}
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), events, "ResourceClaim", "", nil)
	return &Ledger{manager: dynamicresources.NewDRAManager(ctx, claims, tracked, factory), shapes: map[string]*shape{}}, events
}

// shareClaim returns a claim with an allocated share of a device of node n.
func shareClaim(name, device, amount string) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), ResourceVersion: "2"},
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
			Driver: driver, Pool: "n", Device: device, ShareID: ptr.To(types.UID("share of " + name)),
			ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{"shares": resource.MustParse(amount)},
		}}}}},
	}
}

// unallocated returns the claim as it was before its allocation.
func unallocated(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	c = c.DeepCopy()
	c.ResourceVersion, c.Status = "1", resourceapi.ResourceClaimStatus{}
	return c
}

// A claim is in flight, then also in the cache, and then in the cache only. Its shares count once all the while, for policies and for the
// allocator.
func TestSharesCountOnce(t *testing.T) {
	l, events := upstreamLedger(t, sliceOf("a", 1, "gpu-0", "gpu-1"))
	profile := &manager{SharedDRAManager: l.manager, ledger: l}
	check := func(when string, want ...int64) {
		t.Helper()
		view := fatal.Value(l.View(context.Background()))(t)
		state := fatal.Value(profile.ResourceClaims().GatherAllocatedState())(t)
		if got := view.Node("n").used; !slices.Equal(got, want) {
			t.Errorf("%s, %v thousandths are used, want %v", when, got, want)
		}
		if got := newNode(view.Node("n").shape, state).used; !slices.Equal(got, want) {
			t.Errorf("%s, the allocator counts %v thousandths, want %v", when, got, want)
		}
	}
	events.OnAdd(shareClaim("old", "gpu-0", "100"), true) // from before the scheduler began
	check("before", 100, 0)
	claim := shareClaim("new", "gpu-0", "460")
	events.OnAdd(unallocated(claim), false)
	fatal.If(t, profile.ResourceClaims().SignalClaimPendingAllocation(claim.UID, claim))
	check("in flight", 560, 0)
	events.OnUpdate(unallocated(claim), claim)
	check("while it is bound", 560, 0)
	others := shareClaim("theirs", "gpu-1", "300") // allocated by another plugin of the process
	events.OnAdd(unallocated(others), false)
	fatal.If(t, l.manager.ResourceClaims().SignalClaimPendingAllocation(others.UID, others))
	events.OnUpdate(unallocated(others), others)
	check("while another plugin's is bound", 560, 300)
	for _, c := range []*resourceapi.ResourceClaim{claim, others} {
		profile.ResourceClaims().MaybeRemoveClaimPendingAllocation(c.UID, true)
	}
	check("bound", 560, 300)
	for i := range 3 * extraShares {
		c := shareClaim(fmt.Sprint("short-", i), "gpu-1", "10")
		events.OnAdd(c, false)
		check("with one more", 560, 310)
		events.OnDelete(c)
	}
	check("at the end", 560, 300)
	if n := len(l.shares.known); n > 2*extraShares {
		t.Errorf("%d shares are remembered", n)
	}
}
