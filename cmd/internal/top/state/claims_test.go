package state

import (
	"fmt"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"gnnsched/internal/cluster"
)

// gpusIn is a slice of a node with GPUs that several claims can share.
func gpusIn(node string, gpus int) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{}
	s.Name, s.Spec.Driver, s.Spec.NodeName = node, "gpu.nvidia.com", &node
	s.Spec.Pool = resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}
	product, many := "T4\x1b", true
	for i := range gpus {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprint("gpu-", i), AllowMultipleAllocations: &many,
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"productName": {StringValue: &product}},
			Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"shares": {Value: *resource.NewQuantity(1000, resource.DecimalSI)}},
		})
	}
	return s
}

// gives is a claim that has a share of a device.
func gives(name, node, device string, shares int64) Claim {
	share := types.UID(name)
	return Claim{Namespace: "default", Name: name, Results: []resourceapi.DeviceRequestAllocationResult{{
		Driver: "gpu.nvidia.com", Pool: node, Device: device, ShareID: &share,
		ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{"shares": *resource.NewQuantity(shares, resource.DecimalSI)},
	}}}
}

// A node's devices come from its slices. Claims and annotations both take parts of them.
func TestDevicesInSlices(t *testing.T) {
	c, both := New(), worker("both")
	both.GPU.Allocatable, both.GPUModel, both.Devices = 2000, "P100", make([]int64, 2)
	c.SetNode(both)
	c.SetNode(worker("only"))
	c.SetSlice(gpusIn("both", 2))
	c.SetSlice(gpusIn("only", 3))
	half, annotated, pair := pod("half", "only", 1, 1), pod("annotated", "both", 1, 1), pod("pair", "only", 1, 1)
	half.Claims, pair.Claims = []string{"a"}, []string{"a", "b", "missing"}
	annotated.GPU, annotated.Devices = 300, cluster.Device(1)
	for _, p := range []Pod{half, annotated, pair} {
		c.SetPod(p, noon)
	}
	unallocated := Claim{Namespace: "default", Name: "waits"}
	c.replaceClaims([]Claim{
		gives("a", "only", "gpu-1", 460), gives("b", "only", "gpu-2", 1000), gives("c", "both", "gpu-1", 500), gives("gone", "gone", "gpu-0", 1),
		unallocated,
	})
	check := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, n := range c.Frame(noon, 0).Nodes {
			got = append(got, fmt.Sprintf("%s %s %d/%d %v", n.Name, n.GPUModel, n.GPU.Requested, n.GPU.Allocatable, n.Devices))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
	}
	check("at first", "both P100 800/2000 [0 800]", "only T4  1460/3000 [0 460 1000]")
	if got := fmt.Sprint(c.PodsOn("only")[1].Held, c.PodsOn("only")[1].GPU,
		c.PodsOn("only")[0].GPU); got != "[{a gpu-1 460} {b gpu-2 1000}] 1460 460" {
		t.Errorf("the pods hold %s", got)
	}
	if w := c.Workloads(); w[0].GPU != 300+1460 { // both pods have claim a
		t.Errorf("the workload holds %d", w[0].GPU)
	}
	c.deleteClaim("default", "b")
	c.SetClaim(gives("d", "only", "gpu-0", 100))
	check("after changes", "both P100 800/2000 [0 800]", "only T4  560/3000 [100 460 0]")
	c.deleteSlice("only")
	check("without a slice", "both P100 800/2000 [0 800]", "only  0/0 []")
	c.replaceSlices(nil)
	check("without slices", "both P100 300/2000 [0 300]", "only  0/0 []")
}
