package cards

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// Shares are counted by the capacity of which most is used, as the allocator rounds them.
func TestConsumed(t *testing.T) {
	q := func(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }
	device := func(policy *resourceapi.CapacityRequestPolicy) *resourceapi.Device {
		return &resourceapi.Device{Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"shares": {Value: *q("100"), RequestPolicy: policy}}}
	}
	ranged := &resourceapi.CapacityRequestPolicy{Default: q("50"), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: q("10"), Step: q("10")}}
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
