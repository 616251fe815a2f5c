package dra

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/decision"
)

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
