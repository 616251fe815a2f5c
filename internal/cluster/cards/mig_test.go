package cards

import (
	"strconv"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
)

func counter(n int) resourceapi.Counter {
	return resourceapi.Counter{Value: *resource.NewQuantity(int64(n), resource.DecimalSI)}
}

// partitionOf returns a partition of a GPU, as drivers publish it.
func partitionOf(p mig.Profile, start int) resourceapi.Device {
	counters := map[string]resourceapi.Counter{"compute-slices": counter(p.Compute())}
	for i := range p.Memory() {
		counters[mig.CounterPrefix+strconv.Itoa(start+i)] = counter(1)
	}
	return resourceapi.Device{
		Name:             p.Name(40) + "-" + strconv.Itoa(start),
		Attributes:       map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{profileAttribute: {StringValue: ptr.To(p.Name(40))}},
		ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "gpu-0", Counters: counters}},
	}
}

func slicesOf(devices ...resourceapi.Device) []*resourceapi.ResourceSlice {
	spec := func() resourceapi.ResourceSliceSpec {
		return resourceapi.ResourceSliceSpec{
			Driver: "gpu.nvidia.com", NodeName: ptr.To("n"), Pool: resourceapi.ResourcePool{Name: "n", Generation: 1, ResourceSliceCount: 2},
		}
	}
	counters, rest := spec(), spec()
	counters.SharedCounters = []resourceapi.CounterSet{{Name: "gpu-0", Counters: partitionOf(mig.Seven, 0).ConsumesCounters[0].Counters}}
	rest.Devices = devices
	return []*resourceapi.ResourceSlice{
		{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: counters}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: rest},
	}
}

// Partitions are found by their counters and profile attribute, with the thousandths that package mig computes. If a partition fits on a
// GPU, the GPU has room for its thousandths: six of 1g and one of 1g with twice the memory are no more than the whole GPU.
func TestMIG(t *testing.T) {
	var devices []resourceapi.Device
	for _, p := range mig.Profiles() {
		for _, s := range p.Starts() {
			devices = append(devices, partitionOf(p, s))
		}
	}
	set := Read(slicesOf(devices...))
	if set == nil || !set.Cards[0].MIG || len(set.Devices) != len(devices) {
		t.Fatalf("%+v", set)
	}
	i := 0
	for _, p := range mig.Profiles() {
		for _, s := range p.Starts() {
			if d := set.Devices[i]; d.Profile != p || d.Slices != p.On(s) || d.Milli != p.Milli() {
				t.Errorf("%s is profile %d on %08b with %d thousandths, want %d", d.Name, d.Profile, d.Slices, d.Milli, p.Milli())
			}
			i++
		}
	}
	six := map[string]int64{"compute-slices": 6000}
	for i := range 6 {
		six[mig.CounterPrefix+strconv.Itoa(i)] = 1000
	}
	if used := Share(six, set.Cards[0].Counters); used != mig.Used(6, 6) || used+mig.OneWide.Milli() > cluster.DeviceMilli {
		t.Errorf("six of 1g take %d thousandths, and 1g.10gb %d", used, mig.OneWide.Milli())
	}
}

// Counters and profiles that are not NVIDIA's make cards without MIG, and devices without a profile.
func TestNotMIG(t *testing.T) {
	for name, edit := range map[string]func(*resourceapi.Device){
		"no attribute": func(d *resourceapi.Device) { d.Attributes = nil },
		"other profile": func(d *resourceapi.Device) {
			d.Attributes[profileAttribute] = resourceapi.DeviceAttribute{StringValue: ptr.To("cpx")}
		},
		"no such size": func(d *resourceapi.Device) {
			d.Attributes[profileAttribute] = resourceapi.DeviceAttribute{StringValue: ptr.To("5g.20gb")}
		},
		"half a slice": func(d *resourceapi.Device) {
			d.ConsumesCounters[0].Counters[mig.CounterPrefix+"0"] = resourceapi.Counter{Value: resource.MustParse("500m")}
		},
		"a ninth slice": func(d *resourceapi.Device) { d.ConsumesCounters[0].Counters[mig.CounterPrefix+"8"] = counter(1) },
	} {
		d := partitionOf(mig.Two, 0)
		edit(&d)
		if set := Read(slicesOf(d)); set == nil || set.Devices[0].Profile != mig.None {
			t.Errorf("%s: %+v", name, set)
		}
	}
	in := slicesOf(partitionOf(mig.Two, 0))
	delete(in[0].Spec.SharedCounters[0].Counters, mig.CounterPrefix+"7")
	if set := Read(in); set == nil || set.Cards[0].MIG {
		t.Errorf("seven memory slices: %+v", set)
	}
}
