package kube_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

func TestClaim(t *testing.T) {
	for _, c := range []struct {
		ask    cluster.Resources
		models []string
		count  int64
		shares string
		cel    string
	}{
		{ask: cluster.Resources{GPU: 4}, count: 4},
		{ask: cluster.Resources{GPUMilli: 460}, models: []string{"A10", `T"4`}, count: 1, shares: "460",
			cel: `has(device.attributes["gpu.nvidia.com"].productName) && device.attributes["gpu.nvidia.com"].productName in ["A10", "T\"4"]`},
	} {
		e := kube.Claim(c.ask, c.models).Devices.Requests[0].Exactly
		shares, cel := "", ""
		if e.Capacity != nil {
			q := e.Capacity.Requests[kube.GPUSharesCapacity]
			shares = q.String()
		}
		if len(e.Selectors) > 0 {
			cel = e.Selectors[0].CEL.Expression
		}
		if e.Count != c.count || shares != c.shares || cel != c.cel {
			t.Errorf("%+v: %d devices, %q shares, selector %s", c.ask, e.Count, shares, cel)
		}
	}
}

func TestReadClaimed(t *testing.T) {
	result := func(pool, device, shares string) resourceapi.DeviceRequestAllocationResult {
		out := resourceapi.DeviceRequestAllocationResult{Driver: kube.GPUDriver, Pool: pool, Device: device}
		if shares != "" {
			out.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{kube.GPUSharesCapacity: resource.MustParse(shares)}
		}
		return out
	}
	foreign := result("n", "gpu-0", "")
	foreign.Driver = "gpu.example.com"
	for _, c := range []struct {
		results []resourceapi.DeviceRequestAllocationResult
		want    kube.Claimed
		err     string
	}{
		{results: []resourceapi.DeviceRequestAllocationResult{result("n", "gpu-3", "1000"), result("n", "gpu-1", "1000")},
			want: kube.Claimed{Pool: "n", Devices: 0b1010, Milli: 1000}},
		{results: []resourceapi.DeviceRequestAllocationResult{result("n", "gpu-2", "460")},
			want: kube.Claimed{Pool: "n", Devices: 0b100, Milli: 460}},
		{results: []resourceapi.DeviceRequestAllocationResult{result("n", "gpu-0", "")}, want: kube.Claimed{Pool: "n", Devices: 1, Milli: 1000}},
		{err: "no allocation"},
		{results: []resourceapi.DeviceRequestAllocationResult{foreign}, err: "of driver gpu.example.com"},
		{results: []resourceapi.DeviceRequestAllocationResult{result("n", "gpu-64", "")}, err: "device gpu-64"},
		{results: []resourceapi.DeviceRequestAllocationResult{result("n", "gpu-0-mig-1g5gb-0", "")}, err: "not a GPU by its number"},
		{results: []resourceapi.DeviceRequestAllocationResult{result("n", "gpu-1", ""), result("m", "gpu-2", "")}, err: "pools n and m"},
		{results: []resourceapi.DeviceRequestAllocationResult{result("n", "gpu-1", "100"), result("n", "gpu-1", "100")}, err: "gpu-1 twice"},
		{results: []resourceapi.DeviceRequestAllocationResult{result("n", "gpu-1", "100"), result("n", "gpu-2", "200")},
			err: "100 thousandths of one device and 200"},
	} {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
		if c.results != nil {
			claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: c.results}}
		}
		got, err := kube.ReadClaimed(claim)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v: error %v, not %q", c.results, err, c.err)
			}
		} else if d := cmp.Diff(c.want, got); err != nil || d != "" {
			t.Errorf("%v %s", err, d)
		}
	}
}

func TestGPUsInSlices(t *testing.T) {
	slice := func(driver, node string, generation int64, devices, counters int) resourceapi.ResourceSlice {
		s := resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: ptr.To(node), Pool: resourceapi.ResourcePool{Name: node, Generation: generation},
		}}
		s.Spec.Devices, s.Spec.SharedCounters = make([]resourceapi.Device, devices), make([]resourceapi.CounterSet, counters)
		return s
	}
	parts := slice(kube.GPUDriver, "b", 1, 3, 0)
	for i := range parts.Spec.Devices {
		parts.Spec.Devices[i].ConsumesCounters = make([]resourceapi.DeviceCounterConsumption, 1)
	}
	everywhere := slice(kube.GPUDriver, "", 1, 5, 0)
	everywhere.Spec.NodeName = nil
	got := kube.GPUsInSlices([]resourceapi.ResourceSlice{
		slice(kube.GPUDriver, "a", 1, 8, 0), slice(kube.GPUDriver, "a", 2, 2, 0), slice("gpu.example.com", "a", 1, 1, 0),
		slice(kube.GPUDriver, "b", 1, 0, 2), parts, slice("nic.example.com", "b", 1, 4, 0), everywhere,
	})
	if d := cmp.Diff(map[string]int64{"a": 3, "b": 2}, got); d != "" {
		t.Error(d)
	}
}

// A pod's claims are its named claims, the claims made from its templates, and the one for its extended resources.
func TestClaimNames(t *testing.T) {
	text := func(s string) *string { return &s }
	p := &corev1.Pod{}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{
		{Name: "a", ResourceClaimName: text("named")}, {Name: "b", ResourceClaimTemplateName: text("t")},
		{Name: "c", ResourceClaimTemplateName: text("t")},
	}
	p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: text("made")}, {Name: "b"}}
	p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "extended"}
	if got := strings.Join(kube.ClaimNames(p), " "); got != "named made extended" {
		t.Errorf("got %q", got)
	}
}
