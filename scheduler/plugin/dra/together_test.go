package dra

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
)

// placed returns whole devices with a NUMA node and a PCIe root each: "0a" is on NUMA node 0 and root a, "-" on none that is known.
func placed(where ...string) *resourceapi.ResourceSlice {
	s := sliceOf("a", 1)
	for i, w := range where {
		d := resourceapi.Device{Name: fmt.Sprint("gpu-", i)}
		if w != "-" {
			d.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"numaNode":                        {IntValue: ptr.To(int64(w[0] - '0'))},
				"resource.kubernetes.io/pcieRoot": {StringValue: ptr.To("pci0000:" + w[1:])},
			}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

func cardSet(cards ...int) (on cluster.DeviceSet) {
	for _, i := range cards {
		on |= cluster.Device(i)
	}
	return on
}

// Of idle cards, those are taken that are near to each other, unless the pod's constraints say otherwise or nothing is known.
func TestTogether(t *testing.T) {
	root := "resource.kubernetes.io/pcieRoot"
	for _, c := range []struct {
		name        string
		where       string
		busy, taken []int // by claims, by pods without
		on          cluster.DeviceSet
		count       int64
		constraints []resourceapi.DeviceConstraint
		want        cluster.DeviceSet
	}{
		{name: "nothing is known", where: "- - - -", on: cardSet(0, 1), want: cardSet(0, 1)},
		{name: "one root", where: "0a 0b 0a 1c", on: cardSet(0, 1), want: cardSet(0, 2)},
		{name: "one NUMA node rather than one root more", where: "0a 0b 0c 1d 1d", on: cardSet(0, 1, 2), want: cardSet(0, 1, 2)},
		{name: "the larger group stays whole", where: "0a 0a 0a 1b 1b", on: cardSet(0, 1), want: cardSet(3, 4)},
		{name: "what the policy chose, if it is as good", where: "0a 0a 1b 1b", on: cardSet(2, 3), want: cardSet(2, 3)},
		{name: "claims have the first root", where: "0a 0a 1b 1b", busy: []int{0}, on: cardSet(1, 2), want: cardSet(2, 3)},
		{name: "other pods have the first root", where: "0a 0a 1b 1b", taken: []int{0}, on: cardSet(1, 2), want: cardSet(2, 3)},
		{name: "more than a NUMA node has", where: "0a 0b 1c 1d", on: cardSet(0, 1, 2), want: cardSet(0, 1, 2)},
		{name: "the largest group first", where: "0a 1b 1b 1b 2c", on: cardSet(0, 1, 2, 3), want: cardSet(0, 1, 2, 3)},
		{name: "a constraint", where: "0a 0b 1c 1c", on: cardSet(0, 1),
			constraints: []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(root))}}, want: cardSet(2, 3)},
		{name: "a constraint that cannot be met", where: "0a 0b 1c 1d", on: cardSet(0, 1),
			constraints: []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(root))}}, want: cardSet(0, 1)},
		{name: "a constraint on an attribute that some lack", where: "- - 1c 1c", on: cardSet(0, 1),
			constraints: []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(driver + "/numaNode"))}},
			want:        cardSet(2, 3)},
		{name: "a constraint of another kind", where: "0a 0b 0a 1c", on: cardSet(0, 1),
			constraints: []resourceapi.DeviceConstraint{{DistinctAttribute: ptr.To(resourceapi.FullyQualifiedName(root))}}, want: cardSet(0, 1)},
		{name: "a constraint on another request", where: "0a 0b 0a 1c", on: cardSet(0, 1),
			constraints: []resourceapi.DeviceConstraint{{Requests: []string{"nic"}, MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(root))}},
			want:        cardSet(0, 1)},
		{name: "a constraint on this request", where: "0a 0b 0a 1c", on: cardSet(0, 1),
			constraints: []resourceapi.DeviceConstraint{{Requests: []string{"nic", "gpu"},
				MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(root))}}, want: cardSet(0, 2)},
		{name: "one card", where: "0a 0a", on: cardSet(1), want: cardSet(1)},
		{name: "the policy chose fewer", where: "0a 0b 0a", on: cardSet(0, 1), count: 3, want: cardSet(0, 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := []*resourceapi.ResourceSlice{placed(strings.Fields(c.where)...)}
			state := noState()
			s := newShape(in)
			for _, i := range c.busy {
				state.AllocatedDevices.Insert(s.ids[i])
			}
			if c.count == 0 {
				c.count = int64(c.on.Len())
			}
			a := &Ask{cel: cel.NewCache(1, cel.Features{}), wants: []want{{request: "gpu", count: c.count}}, sizes: []int64{1000}}
			a.match.add(a.wants, 0, c.constraints)
			taken := make([]int64, len(s.Cards))
			for _, i := range c.taken {
				taken[i] = 500
			}
			if got := a.together(context.Background(), newNode(s, state), c.on, func() []int64 { return taken }); got != c.want {
				t.Errorf("took %b, want %b", got, c.want)
			}
		})
	}
}

// Cards of another model or driver, or without a device for the pod, are no alternative.
func TestNoAlternative(t *testing.T) {
	in := placed("0a", "0b", "0a", "0a")
	in.Spec.Devices[2].Attributes["productName"] = resourceapi.DeviceAttribute{StringValue: ptr.To("other")}
	in.Spec.Devices[3].Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	a := &Ask{cel: cel.NewCache(1, cel.Features{}), wants: []want{{request: "gpu", count: 2}}, sizes: []int64{1000}}
	none := func() []int64 { return nil }
	if got := a.together(context.Background(), newNode(newShape([]*resourceapi.ResourceSlice{in}), noState()), cardSet(0, 1),
		none); got != cardSet(0, 1) {
		t.Errorf("took %b", got)
	}
	theirs := placed("0a", "0b")
	theirs.Spec.Driver, theirs.Name = "gpu.other.example.com", "b"
	two := newShape([]*resourceapi.ResourceSlice{placed("0a", "0b"), theirs})
	if got := a.together(context.Background(), newNode(two, noState()), cardSet(0, 1), none); got != cardSet(0, 1) {
		t.Errorf("took %b of two drivers", got)
	}
	if got := a.together(context.Background(), newNode(two, noState()), cardSet(0, 2), none); got != cardSet(0, 2) {
		t.Errorf("took %b where the policy mixed drivers", got)
	}
}

// The attribute with the partitions of NVIDIA's fabric manager of the size comes first.
func TestLevels(t *testing.T) {
	in := placed("0a", "0b", "1c", "1d")
	for i, p := range []int64{7, 8, 7, 8} {
		in.Spec.Devices[i].Attributes[driver+"/partition2"] = resourceapi.DeviceAttribute{IntValue: &p}
	}
	a := &Ask{cel: cel.NewCache(1, cel.Features{}), wants: []want{{count: 2}}, sizes: []int64{1000}}
	s := newShape([]*resourceapi.ResourceSlice{in})
	if got := a.together(context.Background(), newNode(s, noState()), cardSet(0, 1), func() []int64 { return nil }); got != cardSet(0, 2) {
		t.Errorf("took %b", got)
	}
	if got := s.Values("numaNode"); !slices.Equal(got, []string{"0", "0", "1", "1"}) {
		t.Errorf("NUMA nodes %q", got)
	}
	if got := s.levels(nil, 2); len(got) != 3 || got[0][0] != got[0][2] || !slices.Equal(got[1], s.Values("numaNode")) || len(got[2]) != 4 {
		t.Errorf("levels %q", got)
	}
	if got := newShape([]*resourceapi.ResourceSlice{placed("-", "-")}).levels(nil, 2); got != nil {
		t.Errorf("levels %q of devices that are anywhere", got)
	}
}
