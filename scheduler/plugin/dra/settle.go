package dra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/decision"
)

// settle finds out whether another scheduler gave the pod's devices away at the same time, which the API server does not prevent: it knows
// one claim at a time. The one that was second gives its devices back, and its pod tries again. Claims that other pods use, too, are left
// as they are.
func (p *plugin) settle(ctx context.Context, pod *v1.Pod, r *reserved) *fwk.Status {
	if len(r.claims) == 0 {
		return nil
	}
	all, err := p.manager.SharedDRAManager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return fwk.AsStatus(err)
	}
	within, cancel := context.WithTimeout(ctx, seeWithin)
	defer cancel()
	o, lost := &p.manager.ledger.order, ""
	var own []*resourceapi.ResourceClaim
	for _, c := range r.claims {
		is := p.cached(pod, c)
		if is == nil || is.Status.Allocation == nil || !usedBy(is, pod) || !p.see(within, is) {
			continue
		}
		own = append(own, is)
		// Nobody looked whether a claim that was allocated before this cycle was first: its scheduler may have been killed.
		if device := o.overdrawn(is.UID, all, !r.gave(c)); device != "" && lost == "" {
			lost = device
		}
	}
	if lost == "" {
		return nil
	}
	conflicts.WithLabelValues(p.handle.ProfileName()).Inc()
	for _, c := range own {
		if err := p.giveBack(ctx, pod, c); err != nil {
			klog.FromContext(ctx).Error(err, "Devices that another scheduler gave away, too, cannot be given back yet", "pod", klog.KObj(pod),
				"claim", klog.KObj(c))
		}
	}
	return fwk.AsStatus(fmt.Errorf("another scheduler gave device %s away, too", lost))
}

// seeWithin is how long settle waits for the watch of the claims, on which all other claims come, too. It holds for all claims of a pod
// together.
const seeWithin = 10 * time.Second

// see waits until the order has the claim. If it has not when ctx is done, the claim goes unchecked, as it would upstream.
func (p *plugin) see(ctx context.Context, c *resourceapi.ResourceClaim) bool {
	o := &p.manager.ledger.order
	if o.claims == nil { // nothing is followed
		return false
	}
	seen := o.seen(c)
	select {
	case <-seen:
		return true
	case <-ctx.Done():
	}
	o.forget(c.UID)
	select {
	case <-seen: // that of an earlier claim took all the time
		return true
	default:
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		klog.FromContext(ctx).Info("The watch of the claims is late: whether another scheduler gave the same devices away is not known",
			"claim", klog.KObj(c))
	}
	return false
}

// cached returns a reserved claim as the cache has it; nil if it has none. That of extended resources had no name when it was reserved.
func (p *plugin) cached(pod *v1.Pod, c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	tracker := p.manager.ResourceClaims()
	if c.ResourceVersion != "" {
		if is, err := tracker.Get(c.Namespace, c.Name); err == nil && is.UID == c.UID {
			return is
		}
		return nil
	}
	all, err := tracker.List()
	if i := slices.IndexFunc(all, func(is *resourceapi.ResourceClaim) bool { return servesExtended(is, pod) }); err == nil && i >= 0 {
		return all[i]
	}
	return nil
}

// servesExtended reports whether a claim was made for the extended resources of a pod.
func servesExtended(c *resourceapi.ResourceClaim, pod *v1.Pod) bool {
	o := metav1.GetControllerOf(c)
	return o != nil && o.UID == pod.UID && c.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true"
}

// usedBy reports whether a claim is reserved for the pod, and for nothing else.
func usedBy(c *resourceapi.ResourceClaim, pod *v1.Pod) bool {
	return len(c.Status.ReservedFor) == 1 && c.Status.ReservedFor[0].UID == pod.UID
}

// giveBack takes the devices from a claim that is reserved for the pod alone. Upstream's Unreserve deletes one for extended resources.
func (p *plugin) giveBack(ctx context.Context, pod *v1.Pod, c *resourceapi.ResourceClaim) error {
	if servesExtended(c, pod) {
		return nil
	}
	api := p.handle.ClientSet().ResourceV1().ResourceClaims(c.Namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		is, err := api.Get(ctx, c.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && (is.UID != c.UID || !usedBy(is, pod)) {
			return nil
		}
		if err != nil {
			return err
		}
		is.Status.Allocation, is.Status.ReservedFor, is.Status.Devices = nil, nil, nil
		_, err = api.UpdateStatus(ctx, is, metav1.UpdateOptions{})
		return err
	})
}

// A pod's status may name a claim for extended resources of an earlier attempt to schedule it, which is deleted or belongs to another node.
// If the pod then gets a node that offers the resource itself, and so no claim, the kubelet looks that claim up, and the pod never runs.
// Upstream binds it all the same: see docs/upstream/extended-resource-claim-status.md. LearnedDevices removes the name before the
// pod is bound. The API server of 1.37 lets nobody remove it. There only nodes that give the pod a new claim can have it.

// PreBindPreFlight implements fwk.PreBindPlugin: upstream's, which skips pods without claims. A pod whose status names a claim is not
// skipped, see clearStale.
func (p *plugin) PreBindPreFlight(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string,
) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	result, status := p.DynamicResources.PreBindPreFlight(ctx, state, pod, node)
	if status.IsSkip() && pod.Status.ExtendedResourceClaimStatus != nil {
		return result, nil
	}
	return result, status
}

// clearStale removes the name of a claim from the status of a pod that gets no claim for its extended resources.
func (p *plugin) clearStale(ctx context.Context, pod *v1.Pod, r *reserved) error {
	for _, c := range r.given {
		if servesExtended(c, pod) {
			return nil // upstream has written its name
		}
	}
	named := pod.Status.ExtendedResourceClaimStatus
	api := p.handle.ClientSet().CoreV1().Pods(pod.Namespace)
	// An attempt may have written it a moment ago, and the cache of pods may be late.
	if named == nil && p.served(pod, func(v1.ResourceName) bool { return true }) {
		is, err := api.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("look which claim the pod's status names: %w", err)
		}
		named = is.Status.ExtendedResourceClaimStatus
	}
	if named == nil {
		return nil
	}
	patch := fmt.Sprintf(`{"metadata": {"uid": %q}, "status": {"extendedResourceClaimStatus": null}}`, pod.UID)
	is, err := api.Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("remove the claim %s, which the pod does not use, from its status: %w", named.ResourceClaimName, err)
	}
	if is.Status.ExtendedResourceClaimStatus != nil {
		p.keepsNames.Store(true)
		return errors.New(stuckReason(named))
	}
	stale.WithLabelValues(p.handle.ProfileName()).Inc()
	klog.FromContext(ctx).Info("The pod's status named a claim of an earlier attempt, which it does not use; the name is removed",
		"pod", klog.KObj(pod), "claim", klog.KRef(pod.Namespace, named.ResourceClaimName))
	return nil
}

// Filter implements fwk.FilterPlugin: upstream's, which also lets pods through that need no claim on the node. Their status must name none
// if the API server keeps it.
func (p *plugin) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	status := p.DynamicResources.Filter(ctx, state, pod, info)
	if !status.IsSuccess() || !p.stuck(pod) {
		return status
	}
	offered := info.GetAllocatable().GetScalarResources()
	if p.served(pod, func(name v1.ResourceName) bool { return offered[name] == 0 }) {
		return nil // upstream allocates a claim
	}
	return stuckStatus(pod)
}

// stuck reports whether a pod's status names a claim that nobody can remove.
func (p *plugin) stuck(pod *v1.Pod) bool {
	return pod.Status.ExtendedResourceClaimStatus != nil && p.keepsNames.Load()
}

// stuckStatus refuses a node, or all nodes, for a stuck pod.
func stuckStatus(pod *v1.Pod) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, stuckReason(pod.Status.ExtendedResourceClaimStatus))
}

func stuckReason(named *v1.PodExtendedResourceClaimStatus) string {
	return fmt.Sprintf("the pod's status names claim %s of an earlier attempt, which the API server lets nobody remove: create the pod again",
		named.ResourceClaimName)
}

// served reports whether the pod requests an extended resource that a DeviceClass serves, one of those for which is returns true.
func (p *plugin) served(pod *v1.Pod, is func(v1.ResourceName) bool) bool {
	resolver := p.manager.DeviceClassResolver()
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for name, q := range list[i].Resources.Requests {
				if !q.IsZero() && schedutil.IsDRAExtendedResourceName(name) && resolver.GetDeviceClass(name) != nil && is(name) {
					return true
				}
			}
		}
	}
	return false
}

// PreBind implements fwk.PreBindPlugin: upstream's, which writes the allocations. If that fails, the API server may have
// written them all the same, when it was killed before it answered for example. Upstream takes the devices for free at once. Here they
// stay in use until it is known, and then the claim is in the cache. Allocations that are written must not be another scheduler's, too; see
// settle. Last, the pod's status must name no claim that it does not use; see clearStale.
func (p *plugin) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	r := reservedIn(state)
	defer p.manager.ledger.hold(r.claims)()
	status := p.DynamicResources.PreBind(ctx, state, pod, node)
	if status.IsSuccess() {
		if status = p.settle(ctx, pod, r); status.IsSuccess() {
			return fwk.AsStatus(p.clearStale(ctx, pod, r))
		}
		return status
	}
	for _, c := range r.claims {
		p.confirm(ctx, pod, c, status.AsError())
	}
	return status
}

// hold makes the allocations of claims count until release is called.
func (l *Ledger) hold(claims []*resourceapi.ResourceClaim) (release func()) {
	l.holding.Lock()
	defer l.holding.Unlock()
	if l.held == nil {
		l.held = map[*resourceapi.AllocationResult]int{}
	}
	for _, c := range claims {
		l.held[c.Status.Allocation]++
	}
	return func() {
		l.holding.Lock()
		defer l.holding.Unlock()
		for _, c := range claims {
			if l.held[c.Status.Allocation]--; l.held[c.Status.Allocation] == 0 {
				delete(l.held, c.Status.Allocation)
			}
		}
	}
}

// addHeld adds the held allocations to a state.
func (l *Ledger) addHeld(state *structured.AllocatedState) {
	l.holding.Lock()
	defer l.holding.Unlock()
	for a := range l.held {
		for i := range a.Devices.Results {
			r := &a.Devices.Results[i]
			id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
			switch {
			case r.AdminAccess != nil && *r.AdminAccess:
			case r.ShareID != nil:
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
			default:
				state.AllocatedDevices.Insert(id)
			}
		}
	}
}

// confirmEvery is the time between two questions about a claim.
const confirmEvery = 200 * time.Millisecond

// confirm waits until the API server has answered whether the claim is allocated, and the cache of claims shows it if it is. failed
// is why its allocation may not have been written. If the first answer does not end the wait, it is logged, and so is
// its end, unless the scheduler itself ends.
func (p *plugin) confirm(ctx context.Context, pod *v1.Pod, c *resourceapi.ResourceClaim, failed error) {
	waiting := unconfirmed.WithLabelValues(p.handle.ProfileName())
	waiting.Inc()
	defer waiting.Dec()
	log := klog.FromContext(ctx).WithValues("pod", klog.KObj(pod), "claim", klog.KObj(c))
	told, begun := false, time.Now()
	// The end of the scheduler ends it.
	_ = wait.PollUntilContextCancel(ctx, confirmEvery, true, func(ctx context.Context) (done bool, err error) {
		if done, err = p.confirmed(ctx, pod, c); !done && !told && ctx.Err() == nil {
			told = true
			log.Error(failed, "Whether a claim's allocation is written is not known: the pod and its devices wait for the API server to say, and "+
				"for the cache of claims to show it")
		}
		return done, err
	})
	if told && ctx.Err() == nil {
		log.Info("The wait for a claim's allocation has ended", "took", time.Since(begun))
	}
}

// confirmed asks once.
func (p *plugin) confirmed(ctx context.Context, pod *v1.Pod, c *resourceapi.ResourceClaim) (bool, error) {
	is, err := p.written(ctx, pod, c)
	switch {
	case apierrors.IsForbidden(err):
		return true, nil // no question will be answered
	case err != nil:
		return false, nil
	case is == nil || is.Status.Allocation == nil:
		return true, nil
	}
	cached, err := p.manager.ResourceClaims().Get(is.Namespace, is.Name)
	return err == nil && cached.Status.Allocation != nil, nil
}

// written returns the API server's claim; nil if it has none. That of extended resources had no name when it was reserved.
func (p *plugin) written(ctx context.Context, pod *v1.Pod, c *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	api := p.handle.ClientSet().ResourceV1().ResourceClaims(c.Namespace)
	if c.ResourceVersion != "" {
		is, err := api.Get(ctx, c.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && is.UID != c.UID {
			return nil, nil
		}
		return is, err
	}
	list, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if servesExtended(&list.Items[i], pod) {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

const reservedKey = CycleKey[*reserved]("gnnsched/" + Name + "/reserved")

// reserved holds what a pod got by claims in its scheduling cycle. It never changes.
type reserved struct {
	node   *Node // nil if a policy knows no cards there
	cards  cluster.DeviceSet
	claims []*resourceapi.ResourceClaim // all of the pod's, with their allocations
	given  []*resourceapi.ResourceClaim // those that were allocated in the cycle
}

// gave reports whether a claim was allocated in the cycle.
func (r *reserved) gave(c *resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(r.given, func(g *resourceapi.ResourceClaim) bool { return g.UID == c.UID })
}

func reservedIn(state fwk.CycleState) *reserved {
	if r, has := reservedKey.Find(state); has {
		return r
	}
	return &reserved{}
}

// Reserved returns the cards that the claims of a cycle's pod got on its node; none if it has no claims, or if a policy
// cannot choose for them.
func Reserved(state fwk.CycleState) cluster.DeviceSet { return reservedIn(state).cards }

// ReservedDevices returns the devices that a cycle's pod got by all of its claims, those that were allocated before
// included, in the order of the claims.
func ReservedDevices(state fwk.CycleState) (out []decision.ClaimedDevice) {
	r := reservedIn(state)
	for _, c := range r.claims {
		name := c.Name
		if c.ResourceVersion == "" { // the API server does not have it yet
			name = ""
		}
		for i := range c.Status.Allocation.Devices.Results {
			g := &c.Status.Allocation.Devices.Results[i]
			d := decision.ClaimedDevice{Claim: name, Request: g.Request, Driver: g.Driver, Pool: g.Pool, Name: g.Device}
			if r.node != nil {
				_, d.Milli = r.node.shape.Taken(g)
			}
			out = append(out, d)
		}
	}
	return out
}

// allClaims returns the allocated claims of a pod, given those of them that are being reserved.
func (l *Ledger) allClaims(pod *v1.Pod, given []*resourceapi.ResourceClaim) (out []*resourceapi.ResourceClaim) {
	for _, c := range l.claims(pod) {
		if c.Status.Allocation != nil {
			out = append(out, c)
		}
	}
	for _, g := range given { // the one for extended resources, which the pod does not name yet
		if !slices.ContainsFunc(out, func(c *resourceapi.ResourceClaim) bool { return c.UID == g.UID }) {
			out = append(out, g)
		}
	}
	return out
}

// node returns what claims use on a node in the last view; nil if it has no cards.
func (l *Ledger) node(name string) *Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.Node(name)
}

// CardNames names cards of the node as DRIVER/POOL/NAME. n may be nil.
func (n *Node) CardNames(on cluster.DeviceSet) (names []string) {
	if n == nil {
		return nil
	}
	for i, c := range n.shape.Cards {
		if on.Has(i) {
			names = append(names, c.Driver+"/"+c.Pool+"/"+c.Name)
		}
	}
	return names
}
