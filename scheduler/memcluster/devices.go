package memcluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster/kube"
)

// Devices are the devices in a cluster's ResourceSlices and what ResourceClaims have of them. A pod whose claims were made for it alone can
// have other devices on another node; upstream's allocator chooses them.
type Devices struct {
	slices  []*resourceapi.ResourceSlice
	classes classes
	others  []*resourceapi.ResourceClaim               // that keep their devices
	own     map[types.UID][]*resourceapi.ResourceClaim // by pod
	keeps   map[types.UID]string                       // why a pod's claims keep their devices
}

// NewDevices returns the devices of a cluster with some pods. The claims of pods that are gone are free, or will be.
func NewDevices(slices []*resourceapi.ResourceSlice, all []*resourceapi.DeviceClass, claims []*resourceapi.ResourceClaim,
	pods []*v1.Pod) *Devices {
	d := &Devices{
		slices: slices, classes: classes{}, own: map[types.UID][]*resourceapi.ResourceClaim{}, keeps: map[types.UID]string{},
	}
	for _, c := range all {
		d.classes[c.Name] = c
	}
	left := map[types.NamespacedName]*resourceapi.ResourceClaim{}
	for _, c := range claims {
		left[types.NamespacedName{Namespace: c.Namespace, Name: c.Name}] = c
	}
	present := map[types.UID]bool{}
	for _, p := range pods {
		if present[p.UID] = true; len(p.Spec.ResourceClaims) > 0 {
			d.take(p, left)
		}
	}
	for _, c := range left {
		owner := metav1.GetControllerOfNoCopy(c)
		if c.Status.Allocation != nil && (owner == nil || owner.Kind != "Pod" || present[owner.UID]) {
			d.others = append(d.others, c)
		}
	}
	return d
}

// take takes the claims that were made for a pod alone.
func (d *Devices) take(p *v1.Pod, left map[types.NamespacedName]*resourceapi.ResourceClaim) {
	names := kube.ClaimNames(p)
	var own []*resourceapi.ResourceClaim
	for _, name := range names {
		c := left[types.NamespacedName{Namespace: p.Namespace, Name: name}]
		switch placed := p.Spec.NodeName != ""; {
		case c == nil:
			d.keeps[p.UID] = "its ResourceClaim " + name + " is missing"
		case !metav1.IsControlledBy(c, p) && (placed || c.Status.Allocation != nil):
			d.keeps[p.UID] = "its ResourceClaim " + name + " is not its own, and stays when it goes"
		case placed && c.Status.Allocation == nil:
			d.keeps[p.UID] = "its ResourceClaim " + name + " is not allocated"
		}
		own = append(own, c)
	}
	if len(names) < len(p.Spec.ResourceClaims) {
		d.keeps[p.UID] = "its ResourceClaims have not been made yet"
	}
	if d.keeps[p.UID] != "" {
		return
	}
	d.own[p.UID] = own
	for _, name := range names {
		delete(left, types.NamespacedName{Namespace: p.Namespace, Name: name})
	}
}

// Keeps returns why a pod that has ResourceClaims cannot have other devices; "" if it can. d may be nil.
func (d *Devices) Keeps(pod types.UID) string {
	switch {
	case d == nil:
		return "it has ResourceClaims, and which devices they need is not known"
	case d.keeps[pod] != "":
		return d.keeps[pod]
	case d.own[pod] == nil:
		return "it has ResourceClaims that are not known"
	}
	return ""
}

// Own reports whether a pod has claims that were made for it alone. d may be nil.
func (d *Devices) Own(pod types.UID) bool { return d != nil && d.own[pod] != nil }

// classes implements structured.DeviceClassLister.
type classes map[string]*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	return slices.Collect(maps.Values(c)), nil
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if found := c[name]; found != nil {
		return found, nil
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
}

// allotment says what the pods of Placements have of Devices.
type allotment struct {
	*Devices
	features structured.Features
	cel      *cel.Cache
	now      map[types.UID][]*resourceapi.AllocationResult // by pod on a node: of each of its claims
	home     map[types.UID]home
}

// home is a pod's real node, and what it has there.
type home struct {
	node string
	has  []*resourceapi.AllocationResult
}

// Allot gives the pods on nodes the devices that they really have. From then on, pods with claims of their own fit where devices are free,
// get some where they are counted, and leave them when they are removed.
func (o *Placements) Allot(d *Devices) {
	if d == nil || len(d.own) == 0 {
		return
	}
	gates := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	a := &allotment{
		Devices: d, features: dynamicresources.AllocatorFeatures(gates), now: map[types.UID][]*resourceapi.AllocationResult{},
		home: map[types.UID]home{},
	}
	a.cel = cel.NewCache(10, cel.Features{EnableConsumableCapacity: a.features.ConsumableCapacity})
	for uid, own := range d.own {
		if p := o.Running[uid]; p != nil {
			for _, c := range own {
				a.now[uid] = append(a.now[uid], c.Status.Allocation)
			}
			a.home[uid] = home{p.Spec.NodeName, a.now[uid]}
		}
	}
	o.devices = a
}

// nothing returns the state in which all devices are free.
func nothing() structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
}

// state returns what is allocated to all but a pod.
func (a *allotment) state(but types.UID) structured.AllocatedState {
	s := nothing()
	for _, c := range a.others {
		count(&s, c.Status.Allocation)
	}
	for uid, has := range a.now {
		if uid != but {
			for _, x := range has {
				count(&s, x)
			}
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

// find returns devices of a node for the claims of a pod.
func (a *allotment) find(ctx context.Context, pod types.UID, node *v1.Node) (out []*resourceapi.AllocationResult, err error) {
	allocator, err := structured.NewAllocator(ctx, a.features, a.state(pod), a.classes, a.slices, a.cel)
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
	taken, back := a.state(pod), nothing()
	for _, x := range a.home[pod].has {
		count(&back, x)
	}
	// Of a device with shares too much may be given away. The check of all moves in their order finds that.
	if taken.AllocatedDevices.HasAny(back.AllocatedDevices.UnsortedList()...) {
		return false
	}
	a.now[pod] = a.home[pod].has
	return true
}

// DevicesOf returns the names of the devices that a pod has by claims of its own.
func (o *Placements) DevicesOf(pod types.UID) (names []string) {
	if o.devices != nil {
		for _, x := range o.devices.now[pod] {
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
		a.now[pod.UID], err = a.find(context.Background(), pod.UID, info.Node())
	}
	if err != nil {
		o.log.Error(err, "A pod has no devices in the cluster in memory", "pod", pod.Namespace+"/"+pod.Name, "node", pod.Spec.NodeName)
	}
}

// leave takes a pod's devices away. a may be nil.
func (a *allotment) leave(pod types.UID) {
	if a != nil {
		delete(a.now, pod)
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
