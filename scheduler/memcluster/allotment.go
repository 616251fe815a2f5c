package memcluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/utils/ptr"
)

// allotment says what the pods of Placements have of Devices, and claims that are not of these pods.
type allotment struct {
	*Devices
	features structured.Features
	cel      *cel.Cache
	has      map[types.UID]allocations            // by pod or claim
	on       map[string]map[types.UID]allocations // the same, by the node of the devices, or ""
	home     map[types.UID]home
}

// allocations are those of claims.
type allocations []*resourceapi.AllocationResult

// home is a pod's real node, and what it has there.
type home struct {
	node string
	has  allocations
}

// Allot gives the pods on nodes the devices that they really have. From then on, pods with claims of their own fit where devices are free,
// get some where they are counted, and leave them when they are removed.
func (o *Placements) Allot(d *Devices) {
	if d == nil || len(d.own) == 0 {
		return
	}
	gates := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	a := &allotment{
		Devices: d, features: dynamicresources.AllocatorFeatures(gates),
		has: map[types.UID]allocations{}, on: map[string]map[types.UID]allocations{}, home: map[types.UID]home{},
	}
	a.cel = cel.NewCache(10, cel.Features{EnableConsumableCapacity: a.features.ConsumableCapacity})
	stays := func(c *resourceapi.ResourceClaim) { a.give(c.UID, allocations{c.Status.Allocation}) }
	for _, c := range d.others {
		stays(c)
	}
	for uid, own := range d.own {
		p, has := o.Running[uid], allocations(nil)
		for _, c := range own {
			if has = append(has, c.Status.Allocation); p == nil && c.Status.Allocation != nil {
				stays(c) // the pod is being bound, or has just ended
			}
		}
		if p != nil {
			a.home[uid] = home{p.Spec.NodeName, has}
			a.give(uid, has)
		}
	}
	o.devices = a
}

// give notes what a pod or claim has.
func (a *allotment) give(to types.UID, has allocations) {
	a.has[to] = has
	for _, x := range has {
		for _, r := range x.Devices.Results {
			node := a.pools[pool{r.Driver, r.Pool}]
			if a.on[node] == nil {
				a.on[node] = map[types.UID]allocations{}
			}
			a.on[node][to] = has
		}
	}
}

// leave takes a pod's devices away. a may be nil.
func (a *allotment) leave(pod types.UID) {
	if a == nil {
		return
	}
	for _, x := range a.has[pod] {
		for _, r := range x.Devices.Results {
			delete(a.on[a.pools[pool{r.Driver, r.Pool}]], pod)
		}
	}
	delete(a.has, pod)
}

// nothing returns the state in which all devices are free.
func nothing() structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
}

// state returns what is allocated of the devices that a node can use.
func (a *allotment) state(node string) structured.AllocatedState {
	s, all := nothing(), maps.Clone(a.on[""])
	if all == nil {
		all = map[types.UID]allocations{}
	}
	maps.Copy(all, a.on[node])
	for _, has := range all {
		for _, x := range has {
			count(&s, x)
		}
	}
	return s
}

// count adds an allocation, as upstream's plugin does.
func count(s *structured.AllocatedState, x *resourceapi.AllocationResult) {
	for _, r := range x.Devices.Results {
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		switch {
		case ptr.Deref(r.AdminAccess, false):
		case r.ShareID == nil:
			s.AllocatedDevices.Insert(id)
		default:
			s.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
			if r.ConsumedCapacity != nil {
				s.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
			}
		}
	}
}

// errNoDevices says that a node lacks free devices for a pod's claims.
var errNoDevices = errors.New("no free devices for its ResourceClaims")

// find returns devices of a node for the claims of a pod that has none.
func (a *allotment) find(ctx context.Context, pod types.UID, node *v1.Node) (out allocations, err error) {
	usable := slices.Concat(a.slices[""], a.slices[node.Name])
	allocator, err := structured.NewAllocator(ctx, a.features, a.state(node.Name), a.classes, usable, a.cel)
	if err != nil {
		return nil, err
	}
	var free []*resourceapi.ResourceClaim
	for _, c := range a.own[pod] {
		f := *c
		f.Status = resourceapi.ResourceClaimStatus{}
		free = append(free, &f)
	}
	found, err := allocator.Allocate(ctx, node, free)
	if err != nil && !errors.Is(err, structured.ErrFailedAllocationOnNode) {
		return nil, err
	}
	if len(found) != len(free) {
		return nil, errNoDevices
	}
	for i := range found {
		out = append(out, &found[i])
	}
	return out, nil
}

// returns gives a pod the devices that it really has, if nobody else has them now.
func (a *allotment) returns(pod types.UID) bool {
	taken, back := a.state(a.home[pod].node), nothing()
	for _, x := range a.home[pod].has {
		count(&back, x)
	}
	// Of a device with shares too much may be given away. The check of all moves in their order finds that.
	if taken.AllocatedDevices.HasAny(back.AllocatedDevices.UnsortedList()...) {
		return false
	}
	a.give(pod, a.home[pod].has)
	return true
}

// DevicesOf returns the names of the devices that a pod has by claims of its own.
func (o *Placements) DevicesOf(pod types.UID) (names []string) {
	if o.devices != nil {
		for _, x := range o.devices.has[pod] {
			for _, r := range x.Devices.Results {
				names = append(names, r.Device)
			}
		}
	}
	return names
}

// allot gives a pod devices of its node.
func (o *Placements) allot(pod *v1.Pod) {
	a := o.devices
	if a == nil || a.own[pod.UID] == nil || a.home[pod.UID].node == pod.Spec.NodeName && a.returns(pod.UID) {
		return
	}
	info, err := o.snapshot.Get(pod.Spec.NodeName)
	if err == nil {
		var has allocations
		has, err = a.find(context.Background(), pod.UID, info.Node())
		a.give(pod.UID, has)
	}
	if err != nil {
		o.log.Error(err, "A pod has no devices in the cluster in memory", "pod", pod.Namespace+"/"+pod.Name, "node", pod.Spec.NodeName)
	}
}

// Refusal is Cluster.Refusal, and looks for devices for the pod's own claims.
func (o *Placements) Refusal(ctx context.Context, pod *v1.Pod, node string) (string, error) {
	why, err := o.Cluster.Refusal(ctx, pod, node)
	if why != "" || err != nil {
		return why, err
	}
	return o.lacks(ctx, pod, node)
}

// lacks returns why a node has no devices for a pod; "" if it has, or the pod has no claims of its own.
func (o *Placements) lacks(ctx context.Context, pod *v1.Pod, node string) (string, error) {
	if o.devices == nil || !o.devices.Own(pod.UID) {
		return "", nil
	}
	info, err := o.snapshot.Get(node)
	if err != nil {
		return "the node is gone", nil
	}
	_, err = o.devices.find(ctx, pod.UID, info.Node())
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	}
	return fmt.Sprint(err), nil // such as a selector that cannot be evaluated: upstream's plugin refuses all nodes
}

// Choose is Cluster.Choose, and leaves out nodes without devices for the pod's own claims.
func (o *Placements) Choose(ctx context.Context, pod *v1.Pod) (Choice, error) {
	out, err := o.Cluster.Choose(ctx, pod)
	if err != nil || o.devices == nil || !o.devices.Own(pod.UID) {
		return out, err
	}
	var best []string
	for _, n := range o.ledger.nodes {
		if _, refused := out.Refused[n.Name]; refused {
			continue
		}
		why, err := o.lacks(ctx, pod, n.Name)
		switch {
		case err != nil:
			return Choice{}, err
		case why == "":
			best = append(best, n.Name)
		default:
			out.Refused[n.Name] = why
		}
	}
	if out.Feasible = len(best); !slices.Contains(best, out.Node) {
		out.Best, out.Node = nil, ""
		if len(best) > 0 { // the first node, whatever its score
			out.Best, out.Node = best[:1], best[0]
		}
	}
	return out, nil
}
