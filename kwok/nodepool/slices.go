package nodepool

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/cluster/mig"
)

// The attributes of devices, as NVIDIA's driver names them, and the number of the device on its node.
const (
	attributeType    = "type"
	attributeProduct = kube.GPUProductAttribute
	attributeProfile = "profile"
	attributeIndex   = "index"
)

const typeGPU, typePartition = "gpu", "mig"

// deviceClasses returns the DeviceClasses of the pools' devices: one for each driver's whole devices and shares, with the driver's name,
// and one for its partitions. The class of DefaultDriver also serves kube.GPUResource.
func deviceClasses(pools []Pool) map[string]*resourceapi.DeviceClass {
	out := map[string]*resourceapi.DeviceClass{}
	class := func(name, driver, kind string) *resourceapi.DeviceClass {
		c := &resourceapi.DeviceClass{ObjectMeta: managedMeta(name)}
		expression := fmt.Sprintf("device.driver == %q && device.attributes[%q].%s == %q", driver, driver, attributeType, kind)
		c.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
		out[name] = c
		return c
	}
	for i := range pools {
		for j := range pools[i].Devices {
			d := &pools[i].Devices[j]
			if c := class(d.driver(), d.driver(), typeGPU); d.driver() == DefaultDriver {
				c.Spec.ExtendedResourceName = ptr.To(kube.GPUResource)
			}
			if len(d.MIG) > 0 {
				class(partitionClass(d.driver()), d.driver(), typePartition)
			}
		}
	}
	return out
}

func managedMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{LabelManagedBy: ManagedBy}}
}

// resourceSlices returns the slices of a node, one pool for each driver, which has the node's name. Their
// generation is 1. Counters may not share a slice with devices, and a slice has eight sets of counters at
// most, so partitions take several slices.
func (p *Pool) resourceSlices(node string) []*resourceapi.ResourceSlice {
	byDriver := map[string][]resourceapi.ResourceSliceSpec{}
	next := map[string]int{} // number of the driver's next device
	for i := range p.Devices {
		d := &p.Devices[i]
		specs := byDriver[d.driver()]
		for range d.Count {
			specs = d.publish(specs, next[d.driver()])
			next[d.driver()]++
		}
		byDriver[d.driver()] = specs
	}
	var out []*resourceapi.ResourceSlice
	for _, driver := range slices.Sorted(maps.Keys(byDriver)) {
		specs := byDriver[driver]
		for i, spec := range specs {
			spec.Driver, spec.NodeName = driver, ptr.To(node)
			spec.Pool = resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: int64(len(specs))}
			out = append(out, &resourceapi.ResourceSlice{ObjectMeta: managedMeta(fmt.Sprintf("%s-%s-%d", node, driver, i)), Spec: spec})
		}
	}
	return out
}

// publish adds device number i of its driver to the slices of a node.
func (d *Devices) publish(specs []resourceapi.ResourceSliceSpec, i int) []resourceapi.ResourceSliceSpec {
	whole := d.device("gpu-"+strconv.Itoa(i), i, typeGPU)
	if len(d.MIG) == 0 {
		if d.Shares > 0 {
			whole.AllowMultipleAllocations = ptr.To(true)
			whole.Capacity[kube.GPUSharesCapacity] = sharesCapacity(d.Shares)
			if !d.Memory.IsZero() { // otherwise a claim that does not name memory would take all of it
				whole.Capacity["memory"] = resourceapi.DeviceCapacity{Value: d.Memory, RequestPolicy: &resourceapi.CapacityRequestPolicy{
					Default:    resource.NewQuantity(0, resource.BinarySI),
					ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: resource.NewQuantity(0, resource.BinarySI)},
				}}
			}
		}
		at := slices.IndexFunc(specs, func(s resourceapi.ResourceSliceSpec) bool {
			return len(s.Devices) > 0 && len(s.Devices[0].ConsumesCounters) == 0
		})
		if at < 0 {
			specs, at = append(specs, resourceapi.ResourceSliceSpec{}), len(specs)
		}
		specs[at].Devices = append(specs[at].Devices, whole)
		return specs
	}
	set := whole.Name
	whole.ConsumesCounters = consumes(set, allCounters())
	devices := []resourceapi.Device{whole}
	for _, name := range d.MIG {
		profile, err := d.profile(name)
		if err != nil {
			panic("nodepool: a pool that Validate refuses: " + err.Error())
		}
		for _, start := range profile.Starts() {
			part := d.device(fmt.Sprintf("gpu-%d-mig-%s-%d", i, strings.Replace(name, ".", "", 1), start), i, typePartition)
			part.Attributes[attributeProfile] = resourceapi.DeviceAttribute{StringValue: ptr.To(name)}
			part.Capacity["memory"] = resourceapi.DeviceCapacity{Value: *resource.NewQuantity(d.Memory.Value()*int64(profile.Memory())/mig.Memory,
				resource.BinarySI)}
			part.ConsumesCounters = consumes(set, counters(profile, start))
			devices = append(devices, part)
		}
	}
	return append(addCounters(specs, set), resourceapi.ResourceSliceSpec{Devices: devices})
}

// addCounters adds a device's set of counters to the first slice with room for it.
func addCounters(specs []resourceapi.ResourceSliceSpec, set string) []resourceapi.ResourceSliceSpec {
	at := slices.IndexFunc(specs, func(s resourceapi.ResourceSliceSpec) bool {
		return len(s.SharedCounters) > 0 && len(s.SharedCounters) < resourceapi.ResourceSliceMaxCounterSets
	})
	if at < 0 {
		specs, at = append(specs, resourceapi.ResourceSliceSpec{}), len(specs)
	}
	specs[at].SharedCounters = append(specs[at].SharedCounters, resourceapi.CounterSet{Name: set, Counters: allCounters()})
	return specs
}

// device returns a device with its attributes and memory.
func (d *Devices) device(name string, i int, kind string) resourceapi.Device {
	out := resourceapi.Device{
		Name: name,
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			attributeType:  {StringValue: ptr.To(kind)},
			attributeIndex: {IntValue: ptr.To(int64(i))},
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{},
	}
	if d.Product != "" {
		out.Attributes[attributeProduct] = resourceapi.DeviceAttribute{StringValue: ptr.To(d.Product)}
	}
	if !d.Memory.IsZero() {
		out.Capacity["memory"] = resourceapi.DeviceCapacity{Value: d.Memory}
	}
	return out
}

// sharesCapacity is the capacity of a device with the given number of shares. It is a whole number, because upstream's allocator rounds the
// steps of a policy to whole numbers.
func sharesCapacity(shares int) resourceapi.DeviceCapacity {
	all, one := *resource.NewQuantity(int64(shares), resource.DecimalSI), *resource.NewQuantity(1, resource.DecimalSI)
	return resourceapi.DeviceCapacity{Value: all, RequestPolicy: &resourceapi.CapacityRequestPolicy{
		Default: &all, ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &one, Step: &one},
	}}
}

func consumes(set string, counters map[string]resourceapi.Counter) []resourceapi.DeviceCounterConsumption {
	return []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: counters}}
}
