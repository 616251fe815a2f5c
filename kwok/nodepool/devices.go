package nodepool

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/cluster/mig"
)

// DefaultDriver is the default driver of devices: NVIDIA's GPU driver, so that manifests for its device classes work on the simulated
// cluster.
const DefaultDriver = kube.GPUDriver

const (
	maxProduct = 64        // characters of a device's attribute
	maxShares  = 1_000_000 // of one device
	maxDriver  = 63        // characters of a driver's name
)

// Devices are equal GPUs of a node. A ResourceSlice offers them to claims: whole, in shares, or in
// partitions.
type Devices struct {
	Driver  string `json:"driver,omitempty"`  // default: gpu.nvidia.com
	Product string `json:"product,omitempty"` // such as A100; the attribute productName
	Count   int    `json:"count"`             // on each node; 64 of one driver at most
	// Memory is the memory of one device. It is required with MIG.
	Memory resource.Quantity `json:"memory,omitzero"`
	// Shares is the number of shares of one device, its capacity named shares. Several claims can
	// then use the device. 0: one claim takes the whole device.
	Shares int `json:"shares,omitempty"`
	// MIG lists the profiles, such as 1g.5gb, into which a device can be partitioned. The partitions of a device share its counters, so
	// overlapping ones exclude each other.
	MIG []string `json:"mig,omitempty"`
}

// driver returns the name of the devices' driver.
func (d *Devices) driver() string { return cmp.Or(d.Driver, DefaultDriver) }

// partitionClass returns the name of the DeviceClass of the partitions of a driver's devices:
// mig.nvidia.com for gpu.nvidia.com.
func partitionClass(driver string) string {
	_, domain, _ := strings.Cut(driver, ".")
	return "mig." + domain
}

func (p *Pool) validateDevices(add report) {
	counts := map[string]int{}
	for i := range p.Devices {
		d := &p.Devices[i]
		d.validate(func(reason string, path ...any) { add(reason, append([]any{"devices", i}, path...)...) })
		counts[d.driver()] += max(d.Count, 0)
		if counts[d.driver()] > cluster.MaxDevices {
			add(fmt.Sprintf("a node has more than %d devices of driver %s", cluster.MaxDevices, d.driver()), "devices", i, "count")
			return
		}
	}
	if gpus, has := p.Capacity[kube.GPUResource]; has && counts[DefaultDriver] > 0 && gpus.Value() != int64(counts[DefaultDriver]) {
		add(fmt.Sprintf("is %s, but devices has %d of driver %s, which are the same GPUs; leave one of them out or make them equal",
			gpus.String(), counts[DefaultDriver], DefaultDriver), "capacity", kube.GPUResource)
	}
}

func (d *Devices) validate(add report) {
	switch faults := validation.IsDNS1123Subdomain(d.driver()); {
	case len(faults) > 0:
		add(fmt.Sprintf("%q: %s", d.Driver, faults[0]), "driver")
	case len(d.Driver) > maxDriver:
		add(fmt.Sprintf("has %d characters, more than the %d that are allowed", len(d.Driver), maxDriver), "driver")
	case !strings.Contains(d.driver(), "."), strings.HasPrefix(d.driver(), "mig."):
		add(fmt.Sprintf("%q: a driver is named like %s, and not mig.…, which names the class of partitions", d.Driver, DefaultDriver), "driver")
	}
	add.when(len(d.Product) > maxProduct,
		fmt.Sprintf("has %d characters, more than the %d that are allowed", len(d.Product), maxProduct), "product")
	add.when(d.Count < 1 || d.Count > cluster.MaxDevices,
		fmt.Sprintf("%d is not between 1 and %d, the number of devices on each node", d.Count, cluster.MaxDevices), "count")
	add.when(d.Memory.Sign() < 0 || d.Memory.AsApproximateFloat64() > maxAmount || !wholeNumber(d.Memory),
		fmt.Sprintf("%s is not a whole number of bytes up to %g", d.Memory.String(), maxAmount), "memory")
	add.when(d.Shares < 0 || d.Shares > maxShares, fmt.Sprintf("%d is not between 0 and %d", d.Shares, maxShares), "shares")
	add.when(d.Shares > 0 && len(d.MIG) > 0, "is not for devices with mig: a device is given out in shares or in partitions", "shares")
	for i, name := range d.MIG {
		if _, err := d.profile(name); err != nil {
			add(err.Error(), "mig", i)
		} else if slices.Contains(d.MIG[:i], name) {
			add(fmt.Sprintf("%q is repeated", name), "mig", i)
		}
	}
}

// validateClasses adds a fault if two drivers need a DeviceClass of the same name.
func validateClasses(pools []Pool, add report) {
	drivers := map[string]string{} // by the class of their partitions
	for i := range pools {
		for j := range pools[i].Devices {
			d := &pools[i].Devices[j]
			if len(d.MIG) == 0 {
				continue
			}
			class := partitionClass(d.driver())
			if other, has := drivers[class]; has && other != d.driver() {
				add(fmt.Sprintf("drivers %s and %s would both have the DeviceClass %s", other, d.driver(), class), i, "devices", j, "driver")
			}
			drivers[class] = d.driver()
		}
	}
}

// profile returns a MIG profile of the devices by its name: its compute slices and its memory in GB, such as 3g.20gb.
func (d *Devices) profile(name string) (mig.Profile, error) {
	total := int(math.Round(d.Memory.AsApproximateFloat64() / (1 << 30))) // in GiB, which profiles call gb
	if total < mig.Memory {
		return mig.None, fmt.Errorf("%q needs the devices' memory of %dGi or more, of which a partition gets a part", name, mig.Memory)
	}
	var known []string
	for _, p := range mig.Profiles() {
		own := p.Name(total)
		if own == name {
			return p, nil
		}
		known = append(known, own)
	}
	return mig.None, fmt.Errorf("%q is not a MIG profile of a device with %s; those are %s", name, d.Memory.String(),
		strings.Join(known, ", "))
}

// counters returns the counters that a partition takes of its device.
func counters(p mig.Profile, start int) map[string]resourceapi.Counter {
	out := map[string]resourceapi.Counter{"compute-slices": count(p.Compute())}
	for i := start; i < start+p.Memory(); i++ {
		out[mig.CounterPrefix+strconv.Itoa(i)] = count(1)
	}
	return out
}

// allCounters are the counters of a whole device.
func allCounters() map[string]resourceapi.Counter { return counters(mig.Seven, 0) }

func count(n int) resourceapi.Counter {
	return resourceapi.Counter{Value: *resource.NewQuantity(int64(n), resource.DecimalSI)}
}

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
