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
	for _, c := range d.others {
		a.give(c.UID, allocations{c.Status.Allocation})
	}
	for uid, own := range d.own {
		var has allocations // of a pod without a node, if it is being bound or has just ended
		for _, c := range own {
			if c.Status.Allocation != nil {
				has = append(has, c.Status.Allocation)
			}
		}
		if a.give(uid, has); o.Running[uid] != nil {
			a.home[uid] = home{o.Running[uid].Spec.NodeName, has}
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

// state returns what others than a pod have of the devices that a node can use.
func (a *allotment) state(node string, but types.UID) structured.AllocatedState {
	s, all := nothing(), maps.Clone(a.on[""])
	if all == nil {
		all = map[types.UID]allocations{}
	}
	maps.Copy(all, a.on[node])
	delete(all, but)
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

// find returns devices of a node for the claims of a pod. On its own node a pod keeps the devices that it has.
func (a *allotment) find(ctx context.Context, pod types.UID, node *v1.Node) (out allocations, err error) {
	state, usable := a.state(node.Name, pod), slices.Concat(a.slices[""], a.slices[node.Name])
	home := a.home[pod]
	if home.node == node.Name {
		usable = only(usable, state, home.has)
	}
	allocator, err := structured.NewAllocator(ctx, a.features, state, a.classes, usable, a.cel)
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
	switch {
	case err != nil && !errors.Is(err, structured.ErrFailedAllocationOnNode):
		return nil, err
	case len(found) != len(free):
		return nil, errNoDevices
	}
	for i := range found {
		out = append(out, &found[i])
	}
	if home.node == node.Name {
		if !sets.New(out.ids()...).Equal(sets.New(home.has.ids()...)) {
			return nil, errNoDevices
		}
		return home.has, nil
	}
	return out, nil
}

// only returns copies of slices with some devices, and the partitions that are in use: these count for the counters that partitions share.
func only(all []*resourceapi.ResourceSlice, state structured.AllocatedState, devices allocations) (out []*resourceapi.ResourceSlice) {
	keep, used := sets.New(devices.ids()...), state.AllocatedDevices.Clone()
	for id := range state.AllocatedSharedDeviceIDs {
		used.Insert(id.GetDeviceID())
	}
	for _, s := range all {
		c := *s
		c.Spec.Devices = slices.DeleteFunc(slices.Clone(s.Spec.Devices), func(d resourceapi.Device) bool {
			id := structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, d.Name)
			return !keep.Has(id) && (len(d.ConsumesCounters) == 0 || !used.Has(id))
		})
		out = append(out, &c)
	}
	return out
}

// ids returns the devices of allocations.
func (all allocations) ids() (out []structured.DeviceID) {
	for _, x := range all {
		for _, r := range x.Devices.Results {
			out = append(out, structured.MakeDeviceID(r.Driver, r.Pool, r.Device))
		}
	}
	return out
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
	if a == nil || a.own[pod.UID] == nil {
		return
	}
	if home := a.home[pod.UID]; home.node == pod.Spec.NodeName {
		a.give(pod.UID, home.has)
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
	if out.Feasible = len(best); slices.Contains(best, out.Node) {
		return out, nil
	}
	out = Choice{Feasible: len(best), Refused: out.Refused, Took: out.Took}
	if len(best) > 0 { // the first node, whatever its score
		out.Best, out.Node = best[:1], best[0]
	}
	return out, nil
}

// Devices are the devices in a cluster's ResourceSlices and what ResourceClaims have of them. A pod whose claims were made for it alone can
// have other devices on another node; upstream's allocator chooses them.
type Devices struct {
	slices  map[string][]*resourceapi.ResourceSlice // by node: of pools that no other node can use; the others have ""
	pools   map[pool]string                         // the same node
	classes classes
	others  []*resourceapi.ResourceClaim               // that keep their devices
	own     map[types.UID][]*resourceapi.ResourceClaim // by pod
	keeps   map[types.UID]string                       // why a pod's claims keep their devices
}

// NewDevices returns the devices of a cluster with some pods. The claims of pods that are gone are free, or will be.
func NewDevices(published []*resourceapi.ResourceSlice, all []*resourceapi.DeviceClass, claims []*resourceapi.ResourceClaim,
	pods []*v1.Pod) *Devices {
	d := &Devices{
		slices: map[string][]*resourceapi.ResourceSlice{}, pools: map[pool]string{}, classes: classes{},
		own: map[types.UID][]*resourceapi.ResourceClaim{}, keeps: map[types.UID]string{},
	}
	d.sort(published)
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

// pool identifies a pool.
type pool struct{ driver, name string }

// sort finds the pools of one node.
func (d *Devices) sort(published []*resourceapi.ResourceSlice) {
	for _, s := range published {
		p, node := pool{s.Spec.Driver, s.Spec.Pool.Name}, ptr.Deref(s.Spec.NodeName, "")
		if other, known := d.pools[p]; known && other != node {
			node = ""
		}
		d.pools[p] = node
	}
	for _, s := range published {
		node := d.pools[pool{s.Spec.Driver, s.Spec.Pool.Name}]
		d.slices[node] = append(d.slices[node], s)
	}
}

// take takes the claims that were made for a pod alone.
func (d *Devices) take(p *v1.Pod, left map[types.NamespacedName]*resourceapi.ResourceClaim) {
	names := kube.ClaimNames(p)
	var own []*resourceapi.ResourceClaim
	for _, name := range names {
		c := left[types.NamespacedName{Namespace: p.Namespace, Name: name}]
		switch {
		case c == nil:
			d.keeps[p.UID] = "its ResourceClaim " + name + " is missing"
		case !metav1.IsControlledBy(c, p):
			d.keeps[p.UID] = "its ResourceClaim " + name + " is not its own, and stays when it goes"
		case p.Spec.NodeName != "" && c.Status.Allocation == nil:
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
