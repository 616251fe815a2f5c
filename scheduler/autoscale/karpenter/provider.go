//go:build !service && !k136

package karpenter

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"gnnsched/scheduler/autoscale"
)

// wellKnown guards Karpenter's global set of labels that instance types define. New writes it, and each Step reads it.
var wellKnown sync.RWMutex

// provider is Karpenter's view of a catalog. Embedded methods are nil: nothing here calls them.
type provider struct {
	cloudprovider.CloudProvider
	types   map[string][]*cloudprovider.InstanceType // by pool, as its class of nodes has them
	byName  map[string]*cloudprovider.InstanceType
	catalog map[string]*autoscale.Type
	pool    func(name string) *autoscale.Pool
	classes []status.Object
}

// newProvider makes instance types from a catalog, and makes the labels of its types known to Karpenter, as providers of clouds do.
func newProvider(c *autoscale.Catalog, pools []v1.NodePool) *provider {
	p := &provider{
		types: map[string][]*cloudprovider.InstanceType{}, byName: map[string]*cloudprovider.InstanceType{},
		catalog: map[string]*autoscale.Type{}, pool: c.Pool,
	}
	wellKnown.Lock()
	defer wellKnown.Unlock()
	for i := range c.Types {
		for key := range c.Types[i].Labels {
			v1.WellKnownLabels.Insert(key)
		}
	}
	for i := range c.Types {
		t := &c.Types[i]
		p.catalog[t.Name], p.byName[t.Name] = t, instanceType(t, t.Allocatable)
		for k := range c.Pools {
			it, pool := p.byName[t.Name], &c.Pools[k]
			if pool.Reserves() {
				it = instanceType(t, pool.Allocatable(t))
			}
			p.types[pool.Name] = append(p.types[pool.Name], it)
		}
	}
	kinds := map[schema.GroupKind]bool{}
	for i := range pools {
		if kind := pools[i].Spec.Template.Spec.NodeClassRef.GroupKind(); !kinds[kind] {
			kinds[kind] = true
			p.classes = append(p.classes, newClass(kind))
		}
	}
	return p
}

func instanceType(t *autoscale.Type, allocatable corev1.ResourceList) *cloudprovider.InstanceType {
	it := &cloudprovider.InstanceType{
		Name: t.Name, Capacity: t.Capacity, Overhead: &cloudprovider.InstanceTypeOverhead{KubeReserved: corev1.ResourceList{}},
		Requirements: scheduling.NewRequirements(),
	}
	for name, all := range t.Capacity {
		if free, is := allocatable[name]; is {
			all = all.DeepCopy()
			all.Sub(free)
			it.Overhead.KubeReserved[name] = all
		}
	}
	zones, capacityTypes := map[string]bool{}, map[string]bool{}
	for _, o := range t.Offerings {
		zones[o.Zone], capacityTypes[capacityType(o.Spot)] = true, true
		it.Offerings = append(it.Offerings, &cloudprovider.Offering{
			Available: true, Price: o.Price,
			Requirements: scheduling.NewLabelRequirements(map[string]string{
				corev1.LabelTopologyZone: o.Zone, v1.CapacityTypeLabelKey: capacityType(o.Spot),
			}),
		})
	}
	for key := range v1.WellKnownLabels {
		if key != v1.NodePoolLabelKey {
			it.Requirements.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpDoesNotExist))
		}
	}
	set := func(key string, values ...string) {
		it.Requirements[key] = scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, values...)
	}
	for key, value := range t.Labels {
		set(key, value)
	}
	set(corev1.LabelInstanceTypeStable, t.Name)
	set(corev1.LabelTopologyZone, slices.Sorted(maps.Keys(zones))...)
	set(v1.CapacityTypeLabelKey, slices.Sorted(maps.Keys(capacityTypes))...)
	return it
}

func capacityType(spot bool) string {
	if spot {
		return v1.CapacityTypeSpot
	}
	return v1.CapacityTypeOnDemand
}

// errNoOffering is returned where a NodeClaim allows nothing that the catalog offers.
var errNoOffering = errors.New("the catalog offers nothing that its requirements allow")

// cheapest returns the cheapest offering that a NodeClaim allows, as a machine without a name.
func (p *provider) cheapest(claim *v1.NodeClaim) (autoscale.Launch, error) {
	allowed := scheduling.NewNodeSelectorRequirementsWithMinValues(claim.Spec.Requirements...)
	var best autoscale.Launch
	price, found := 0.0, false
	for _, name := range allowed.Get(corev1.LabelInstanceTypeStable).Values() {
		it := p.byName[name]
		if it == nil {
			continue
		}
		for _, o := range it.Offerings.Compatible(allowed) {
			l := autoscale.Launch{Type: name, Zone: o.Zone(), Spot: o.CapacityType() == v1.CapacityTypeSpot}
			if !found || cmp.Or(cmp.Compare(o.Price, price), cmp.Compare(l.Type, best.Type), cmp.Compare(l.Zone, best.Zone),
				cmp.Compare(o.CapacityType(), capacityType(best.Spot))) < 0 {
				best, price, found = l, o.Price, true
			}
		}
	}
	if !found {
		return best, errNoOffering
	}
	return best, nil
}

// GetInstanceTypes returns the types of the catalog with the room that the pool's class leaves. Karpenter chooses from them
// what the pool allows.
func (p *provider) GetInstanceTypes(_ context.Context, np *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return slices.Clone(p.types[np.Name]), nil
}

// GetSupportedNodeClasses returns a class of each kind that a pool refers to.
func (p *provider) GetSupportedNodeClasses() []status.Object { return p.classes }

// Name names the provider in metrics.
func (p *provider) Name() string { return "gnnsched" }

// class stands for the class of nodes that a pool refers to. Only its kind matters.
type class struct{ *unstructured.Unstructured }

func newClass(kind schema.GroupKind) *class {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind.WithVersion("v1"))
	return &class{u}
}

// GetConditions implements status.Object.
func (c *class) GetConditions() []status.Condition { return nil }

// SetConditions implements status.Object.
func (c *class) SetConditions([]status.Condition) {}

// StatusConditions implements status.Object.
func (c *class) StatusConditions(o ...status.ForOption) status.ConditionSet {
	return status.NewReadyConditions().For(c, o...)
}
