package cards

import (
	"cmp"
	"slices"
	"strconv"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
)

// A share counts by its most used capacity, as the allocator rounds it.
func TestConsumed(t *testing.T) {
	q := func(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }
	device := func(policy *resourceapi.CapacityRequestPolicy) *resourceapi.Device {
		return &resourceapi.Device{Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"shares": {Value: *q("100"),
			RequestPolicy: policy}}}
	}
	ranged := &resourceapi.CapacityRequestPolicy{
		Default: q("50"), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: q("10"), Step: q("10")},
	}
	for _, c := range []struct {
		name   string
		policy *resourceapi.CapacityRequestPolicy
		asked  string
		want   int64
	}{
		{"no policy, all", nil, "", 1000},
		{"no policy", nil, "33", 330},
		{"default", ranged, "", 500},
		{"less than the least", ranged, "1", 100},
		{"a step", ranged, "33", 400},
		{"values", &resourceapi.CapacityRequestPolicy{Default: q("100"), ValidValues: []resource.Quantity{*q("25"), *q("100")}}, "26", 1000},
		{"more than there is", nil, "1000", 1000},
	} {
		var r *resourceapi.CapacityRequirements
		if c.asked != "" {
			r = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"shares": *q(c.asked)}}
		}
		if got := Consumed(device(c.policy), r); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// Numbers in names are compared by value wherever they are.
func TestCompareNatural(t *testing.T) {
	for _, sorted := range [][]string{
		{"gpu-2", "gpu-10"},
		{"gpu-2-counter-set", "gpu-10-counter-set"},
		{"gpu-1-129", "gpu-2-130", "gpu-10-128"},
		{"", "a", "a0", "a00", "a1", "b"},
	} {
		for i, a := range sorted {
			for j, b := range sorted {
				if got := compareNatural(a, b); got != cmp.Compare(i, j) {
					t.Errorf("%q to %q: %d", a, b, got)
				}
			}
		}
	}
}

// Values returns the values on which all devices of a card agree.
func TestValues(t *testing.T) {
	device := func(card int, attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) Device {
		return Device{Device: &resourceapi.Device{Attributes: attributes}, Driver: "gpu.example.com", Card: card}
	}
	numa := func(n int64) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
		return map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"numaNode": {IntValue: &n}}
	}
	s := &Set{Cards: make([]Card, 5), Devices: []Device{
		device(0, numa(1)), device(0, nil), device(0, numa(1)),
		device(1, numa(1)), device(1, numa(0)),
		device(2, numa(-1)),
		device(3, map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"gpu.example.com/numaNode": {IntValue: ptr.To(int64(3))}}),
		device(4, map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"other.example.com/numaNode": {IntValue: ptr.To(int64(4))}}),
	}}
	s.Cards = append(s.Cards, Card{}, Card{})
	const standard = "resource.kubernetes.io/numaNode"
	s.Devices = append(s.Devices,
		device(5, map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			standard: {IntValues: []int64{2, 3}}, "numaNode": {IntValues: []int64{-1}},
		}),
		device(6, map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{standard: {IntValues: []int64{3, 2}}}),
		device(6, map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{standard: {IntValue: ptr.To(int64(3))}}),
	)
	if got := s.Values("numaNode"); !slices.Equal(got, []string{"1", "", "", "3", "", "", ""}) {
		t.Errorf("in the driver's domain: %q", got)
	}
	if got := s.Values(standard); !slices.Equal(got, []string{"", "", "", "", "", "2", "3"}) {
		t.Errorf("of lists: %q", got)
	}
	if got := s.Values("other.example.com/numaNode"); !slices.Equal(got, []string{"", "", "", "", "4", "", ""}) {
		t.Errorf("in another's: %q", got)
	}
	if got := s.Values("gpu.example.com/numaNode"); !slices.Equal(got, []string{"1", "", "", "3", "", "", ""}) {
		t.Errorf("with the domain: %q", got)
	}
}

// If the driver counts no encoders of a card, the card is whole when all the rest is used.
func TestShare(t *testing.T) {
	whole := map[string]int64{"memory": 8000, "slices": 7000, "encoders": 0}
	for _, c := range []struct {
		used map[string]int64
		want int64
	}{
		{map[string]int64{"memory": 8000, "slices": 7000, "encoders": 0}, 1000},
		{map[string]int64{"memory": 4000, "slices": 3500}, 500},
		{nil, 0},
	} {
		if got := Share(c.used, whole); got != c.want {
			t.Errorf("%v: %d, want %d", c.used, got, c.want)
		}
	}
	if got := Share(whole, map[string]int64{"encoders": 0}); got != 0 {
		t.Errorf("of nothing: %d", got)
	}
}

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
