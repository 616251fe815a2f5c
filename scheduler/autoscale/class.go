package autoscale

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// classFile has the fields of an EC2NodeClass, or of another provider's kind of this form, that are read.
type classFile struct {
	Metadata metav1.ObjectMeta          `json:"metadata"`
	Spec     map[string]json.RawMessage `json:"spec"`
	Status   struct {
		Subnets []struct {
			Zone string `json:"zone"`
		} `json:"subnets"`
	} `json:"status"`
}

// kubelet has the settings of a pool's kubelets by which they reserve resources. Without a setting the type's overhead counts.
type kubelet struct {
	MaxPods        *int64            `json:"maxPods"`
	PodsPerCore    *int64            `json:"podsPerCore"`
	SystemReserved v1.ResourceList   `json:"systemReserved"`
	KubeReserved   v1.ResourceList   `json:"kubeReserved"`
	EvictionHard   map[string]string `json:"evictionHard"`
}

// class has what is read of a class of nodes.
type class struct {
	kubelet *kubelet
	zones   []string // of its subnets; empty if it does not say
}

// readClass reads a class of nodes. What is not used is a note.
func (c *Catalog) readClass(kind string, js []byte) (name string, out class, err error) {
	var f classFile
	if err := json.Unmarshal(js, &f); err != nil {
		return "", out, err
	}
	fault := func(err error) error { return fmt.Errorf("%s %s: kubelet: %w", kind, f.Metadata.Name, err) }
	if text, has := f.Spec["kubelet"]; has {
		out.kubelet = &kubelet{}
		if err := json.Unmarshal(text, out.kubelet); err != nil {
			return "", out, fault(err)
		}
		if err := out.kubelet.check(); err != nil {
			return "", out, fault(err)
		}
		delete(f.Spec, "kubelet")
	}
	for _, s := range f.Status.Subnets {
		if s.Zone != "" && !slices.Contains(out.zones, s.Zone) {
			out.zones = append(out.zones, s.Zone)
		}
	}
	if len(out.zones) > 0 {
		delete(f.Spec, "subnetSelectorTerms")
	}
	if len(f.Spec) > 0 {
		unused := strings.Join(slices.Sorted(maps.Keys(f.Spec)), ", ")
		c.Notes = append(c.Notes, fmt.Sprintf("not used: %s of %s %s", unused, kind, f.Metadata.Name))
	}
	return f.Metadata.Name, out, nil
}

// check names the first value that makes no sense.
func (k *kubelet) check() error {
	for name, n := range map[string]*int64{"maxPods": k.MaxPods, "podsPerCore": k.PodsPerCore} {
		if n != nil && (*n < 1 || *n > 10_000) {
			return fmt.Errorf("%s is %d, must be 1 to 10000", name, *n)
		}
	}
	for _, list := range []v1.ResourceList{k.SystemReserved, k.KubeReserved} {
		for name, q := range list {
			if q.Sign() < 0 {
				return fmt.Errorf("the reserved %s is %v", name, &q)
			}
		}
	}
	if text, has := k.EvictionHard[evictionMemory]; has {
		if _, err := share(text, resource.MustParse("1Gi")); err != nil {
			return fmt.Errorf("evictionHard: %s: %w", evictionMemory, err)
		}
	}
	return nil
}

// evictionMemory is the signal of the kubelet below which it evicts pods.
const evictionMemory = "memory.available"

// share reads a quantity, or percent of a whole.
func share(text string, whole resource.Quantity) (resource.Quantity, error) {
	percent, is := strings.CutSuffix(text, "%")
	if !is {
		return resource.ParseQuantity(text)
	}
	x, err := strconv.ParseFloat(percent, 64)
	if err != nil || !(x >= 0 && x <= 100) {
		return whole, fmt.Errorf("%q is no share of 0 to 100 %%", text)
	}
	return *resource.NewQuantity(int64(float64(whole.Value())*x/100), resource.BinarySI), nil
}

// Reserves reports whether the pool's class changes what pods can have of a machine.
func (p *Pool) Reserves() bool { return p != nil && p.kubelet != nil }

// Allocatable returns what pods can have of a machine of a type that a pool starts.
func (p *Pool) Allocatable(t *Type) v1.ResourceList {
	if !p.Reserves() {
		return t.Allocatable
	}
	out, k := t.Allocatable.DeepCopy(), p.kubelet
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		left, named := t.Capacity[name].DeepCopy(), false
		for _, list := range []v1.ResourceList{k.SystemReserved, k.KubeReserved} {
			if q, has := list[name]; has {
				left.Sub(q)
				named = true
			}
		}
		if text, has := k.EvictionHard[evictionMemory]; has && name == v1.ResourceMemory {
			if q, err := share(text, t.Capacity[name]); err == nil { // check has looked
				left.Sub(q)
				named = true
			}
		}
		if named {
			out[name] = left
		}
	}
	pods := out[v1.ResourcePods]
	if k.MaxPods != nil {
		pods.Set(*k.MaxPods)
	}
	if k.PodsPerCore != nil {
		cores := t.Capacity[v1.ResourceCPU]
		pods.Set(min(pods.Value(), *k.PodsPerCore*cores.Value()))
	}
	out[v1.ResourcePods] = pods
	return out
}

// apply gives each pool what its class says. A class that the files lack is named, if they have others.
func (c *Catalog) apply(classes map[string]class) {
	for i := range c.Pools {
		p := &c.Pools[i]
		x, known := classes[p.class]
		if !known {
			if len(classes) > 0 && p.class != "" {
				c.Notes = append(c.Notes, fmt.Sprintf("NodePool %s names the class %q, which the files lack", p.Name, p.class))
			}
			continue
		}
		if p.kubelet = x.kubelet; len(x.zones) > 0 {
			p.Zones = x.zones
			p.Requirements = append(p.Requirements,
				v1.NodeSelectorRequirement{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: x.zones})
		}
	}
}
