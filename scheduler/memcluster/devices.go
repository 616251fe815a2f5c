package memcluster

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster/kube"
)

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
