package kube

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
)

// Names in ResourceSlices and ResourceClaims for GPUs.
const (
	// GPUDriver is the name of NVIDIA's driver, and of the DeviceClass of its whole devices and shares.
	GPUDriver = "gpu.nvidia.com"
	// GPUProductAttribute is the attribute of a device with its model.
	GPUProductAttribute = "productName"
	// GPUSharesCapacity is the capacity of devices that several claims share. A claim that names no amount of it
	// gets the whole device.
	GPUSharesCapacity = "shares"
)

// gpuDrivers begins the names of drivers whose devices are GPUs.
const gpuDrivers = "gpu."

// Claim writes a request for GPUs as the specification of a ResourceClaim: whole devices by their number, a share as thousandths of
// GPUSharesCapacity, of which the devices must have 1000. models are the accepted models; none means all. The request must be for GPUs.
func Claim(r cluster.Resources, models []string) resourceapi.ResourceClaimSpec {
	e := &resourceapi.ExactDeviceRequest{
		DeviceClassName: GPUDriver, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: max(r.GPU, 1),
	}
	if r.GPU == 0 {
		e.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{
			GPUSharesCapacity: *resource.NewQuantity(r.GPUMilli, resource.DecimalSI),
		}}
	}
	if len(models) > 0 {
		quoted := each.Map(models, strconv.Quote)
		product := fmt.Sprintf("device.attributes[%q].%s", GPUDriver, GPUProductAttribute)
		expression := fmt.Sprintf("has(%s) && %s in [%s]", product, product, strings.Join(quoted, ", "))
		e.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
	}
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: e}}}}
}

// ClaimNames returns the names of a pod's claims: named claims, claims made from its templates, and the claim that a scheduler made for its
// extended resources.
func ClaimNames(p *corev1.Pod) (names []string) {
	for _, c := range p.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			names = append(names, *c.ResourceClaimName)
			continue
		}
		for _, made := range p.Status.ResourceClaimStatuses {
			if made.Name == c.Name && made.ResourceClaimName != nil {
				names = append(names, *made.ResourceClaimName)
			}
		}
	}
	if s := p.Status.ExtendedResourceClaimStatus; s != nil {
		names = append(names, s.ResourceClaimName)
	}
	return names
}

// Claimed holds a claim's devices of one pool. They are named gpu-0, gpu-1 and so on.
type Claimed struct {
	Pool    string            // in which each node's devices have the node's name
	Devices cluster.DeviceSet // by the numbers in their names
	Milli   int64             // thousandths of each of them
}

// ReadClaimed reads the allocation of a claim for devices of GPUDriver, whole or shares of one. An error says what else it has.
func ReadClaimed(c *resourceapi.ResourceClaim) (out Claimed, err error) {
	if c.Status.Allocation == nil {
		return out, fmt.Errorf("claim %s has no allocation", c.Name)
	}
	for i, r := range c.Status.Allocation.Devices.Results {
		number, named := strings.CutPrefix(r.Device, "gpu-")
		at, err := strconv.ParseUint(number, 10, 6)
		switch {
		case r.Driver != GPUDriver || !named || err != nil:
			return out, fmt.Errorf("claim %s has device %s of driver %s, not a GPU by its number", c.Name, r.Device, r.Driver)
		case i > 0 && r.Pool != out.Pool:
			return out, fmt.Errorf("claim %s has devices of the pools %s and %s", c.Name, out.Pool, r.Pool)
		case out.Devices.Has(int(at)):
			return out, fmt.Errorf("claim %s has device %s twice", c.Name, r.Device)
		}
		milli := int64(cluster.DeviceMilli)
		if q, shared := r.ConsumedCapacity[GPUSharesCapacity]; shared {
			milli = q.Value()
		}
		if i > 0 && milli != out.Milli {
			return out, fmt.Errorf("claim %s has %d thousandths of one device and %d of another", c.Name, out.Milli, milli)
		}
		out.Pool, out.Milli, out.Devices = r.Pool, milli, out.Devices|cluster.Device(int(at))
	}
	return out, nil
}

// GPUsInSlices returns how many GPUs the slices of each node offer: devices given out whole or in shares, and sets of counters that
// partitions use. Only the newest generation of a pool counts.
func GPUsInSlices(all []resourceapi.ResourceSlice) map[string]int64 {
	type pool struct{ driver, name string }
	newest := map[pool]int64{}
	for i := range all {
		s := &all[i].Spec
		p := pool{s.Driver, s.Pool.Name}
		newest[p] = max(newest[p], s.Pool.Generation) // which are 0 or more
	}
	out := map[string]int64{}
	for i := range all {
		s := &all[i].Spec
		if s.NodeName == nil || !strings.HasPrefix(s.Driver, gpuDrivers) || s.Pool.Generation < newest[pool{s.Driver, s.Pool.Name}] {
			continue
		}
		out[*s.NodeName] += int64(len(s.SharedCounters))
		for j := range s.Devices {
			if len(s.Devices[j].ConsumesCounters) == 0 {
				out[*s.NodeName]++
			}
		}
	}
	return out
}

// maxIndexLength is a bound on the length of GPUIndexAnnotation; all devices need less.
const maxIndexLength = 3 * cluster.MaxDevices

// Devices returns the devices that a pod's GPUIndexAnnotation names. It is empty if the annotation
// is missing or malformed.
func Devices(annotations map[string]string) (on cluster.DeviceSet) {
	s := annotations[GPUIndexAnnotation]
	if s == "" || len(s) > maxIndexLength {
		return 0
	}
	for part := range strings.SplitSeq(s, "-") {
		i, err := strconv.ParseUint(part, 10, 8)
		if err != nil || i >= cluster.MaxDevices {
			return 0
		}
		on |= cluster.Device(int(i))
	}
	return on
}

// FormatDevices writes devices for GPUIndexAnnotation, in ascending order: 0-1-7.
func FormatDevices(on cluster.DeviceSet) string {
	var parts []string
	for rest := on; rest != 0; rest &= rest - 1 {
		parts = append(parts, strconv.Itoa(bits.TrailingZeros64(uint64(rest))))
	}
	return strings.Join(parts, "-")
}

// GPURequest is a pod's request for GPUs.
type GPURequest struct {
	GPU      int64    // whole devices
	GPUMilli int64    // thousandths of one device, 1 to 999; GPU is then 0
	Models   []string // the models that the pod accepts; empty: any
	// WantsIndex is set if the pod uses the resource or the annotations for shares. The scheduler
	// then writes its devices to GPUIndexAnnotation, over any that the owner wrote.
	WantsIndex bool
}

// None reports whether the pod requests no GPU.
func (r GPURequest) None() bool { return r.GPU == 0 && r.GPUMilli == 0 }

// GPURequestOf reads a pod's request for GPUs from its annotations and requested resources. A pod that requests no GPU has no models, even
// if its annotations name some.
//
// The error describes the fault. The request then holds the trustworthy part: if amounts contradict each other, the resources' amount,
// which the owner of a running pod cannot change; and if the models are malformed, no models.
func GPURequestOf(annotations map[string]string, requests Amounts) (GPURequest, error) {
	amount, words, err := gpuAmount(annotations, requests.GPU, requests.GPUMilli)
	out := GPURequest{GPU: amount.GPU, GPUMilli: amount.GPUMilli}
	if out.None() {
		return out, err
	}
	out.WantsIndex = words || annotations[GPUIndexAnnotation] != ""
	names, wrong := parseModels(annotations[GPUModelAnnotation])
	err = cmp.Or(err, wrong)
	out.Models = names
	return out, err
}

// maxGPUs is more than any node has. Amounts that are not much larger overflow in thousandths.
const maxGPUs = 1 << 20

// gpuAmount returns the GPU fields of a request, given the requested GPUResource and GPUMilliResource. words is true if the resource or an
// annotation for shares is used.
func gpuAmount(annotations map[string]string, whole, milli int64) (amount cluster.Resources, words bool, err error) {
	if whole > maxGPUs || milli > maxGPUs*cluster.DeviceMilli {
		return cluster.Resources{GPU: maxGPUs}, milli > 0, fmt.Errorf("it requests more than %d", maxGPUs)
	}
	annotated, err := annotatedAmount(annotations)
	if err != nil {
		return resourceAmount(whole, milli), milli > 0, err
	}
	sources := []cluster.Resources{{GPU: whole}, {GPU: milli / cluster.DeviceMilli, GPUMilli: milli % cluster.DeviceMilli}, annotated}
	for i, s := range sources {
		switch none := (cluster.Resources{}); {
		case s == none:
			continue
		case s.GPU > 0 && s.GPUMilli > 0:
			return resourceAmount(whole, milli), true, fmt.Errorf("it requests %d of %s; a share is less than %d, "+
				"and whole devices are a multiple of %d", milli, GPUMilliResource, cluster.DeviceMilli, cluster.DeviceMilli)
		case amount != none && amount != s:
			return resourceAmount(whole, milli), milli > 0, fmt.Errorf("its requests for %s and %s and its annotations %s and %s do "+
				"not ask for the same", GPUResource, GPUMilliResource, GPUCountAnnotation, GPUMilliAnnotation)
		}
		amount, words = s, words || i > 0
	}
	return amount, words, nil
}

// resourceAmount returns the GPU fields of a request from the resources alone. If the two
// resources disagree, the larger amount counts.
func resourceAmount(whole, milli int64) cluster.Resources {
	if whole == 0 && milli < cluster.DeviceMilli {
		return cluster.Resources{GPUMilli: milli}
	}
	devices := milli / cluster.DeviceMilli
	if milli%cluster.DeviceMilli > 0 {
		devices++
	}
	return cluster.Resources{GPU: max(whole, devices)}
}

// annotatedAmount returns the GPU fields of a request from the annotations alone.
func annotatedAmount(annotations map[string]string) (r cluster.Resources, err error) {
	count, hasCount := annotations[GPUCountAnnotation]
	milli, hasMilli := annotations[GPUMilliAnnotation]
	if !hasCount && !hasMilli {
		return r, nil
	}
	devices, err := parseAmount(GPUCountAnnotation, count, 1, cluster.MaxDevices)
	if err != nil {
		return r, err
	}
	each, err := parseAmount(GPUMilliAnnotation, milli, cluster.DeviceMilli, cluster.DeviceMilli)
	switch {
	case err != nil || devices == 0 || each == 0:
		return r, err
	case each == cluster.DeviceMilli:
		return cluster.Resources{GPU: devices}, nil
	case devices > 1:
		return r, fmt.Errorf("annotation %s is %d with a %s of %d; only a pod on one device may share it",
			GPUMilliAnnotation, each, GPUCountAnnotation, devices)
	}
	return cluster.Resources{GPUMilli: each}, nil
}

// parseAmount parses the annotation of the given name as a number from 0 to most. An empty value
// stands for missing.
func parseAmount(name, value string, missing, most int64) (int64, error) {
	if value == "" {
		return missing, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("annotation %s is %s, not a whole number from 0 to %d", name, exit.Quote(value), most)
	}
	return n, nil
}

// Bounds for GPUModelAnnotation, which may be as long as 256 KiB. No cluster has more models, and
// the value of a label is no longer.
const (
	maxModels    = 32
	maxModelName = 63
)

// parseModels splits a list of models such as A10|T4 and drops repeated ones.
func parseModels(s string) (out []string, err error) {
	if s == "" {
		return nil, nil
	}
	named := 0
	for m := range strings.SplitSeq(s, "|") {
		m = strings.TrimSpace(m)
		switch named++; {
		case named > maxModels:
			return nil, fmt.Errorf("annotation %s names more than %d models", GPUModelAnnotation, maxModels)
		case m == "":
			return nil, fmt.Errorf("annotation %s names no model before, after or between two |", GPUModelAnnotation)
		case len(m) > maxModelName:
			return nil, fmt.Errorf("annotation %s names a model of %d characters; a node's label has %d at most",
				GPUModelAnnotation, len(m), maxModelName)
		}
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out, nil
}
