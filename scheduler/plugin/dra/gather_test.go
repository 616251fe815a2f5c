package dra

import (
	"context"
	"fmt"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
	"k8s.io/utils/ptr"

	"gnnsched/internal/fatal"
)

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
	tracked, err := resourceslicetracker.StartTracker(ctx,
		resourceslicetracker.Options{SliceInformer: factory.Resource().V1().ResourceSlices()})
	fatal.If(t, err)
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
		view, err := l.View(context.Background())
		fatal.If(t, err)
		state, err := profile.ResourceClaims().GatherAllocatedState()
		fatal.If(t, err)
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
