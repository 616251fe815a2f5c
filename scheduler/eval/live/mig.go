package live

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/cluster/mig"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/eval"
)

// gigabytes are the memory of the GPU models of scenarios with MIG, which is in the names of profiles.
var gigabytes = map[string]int{"A100": 40, "H100": 80}

// poolsOf returns a node pool of kwokcluster for each node of an episode. GPUs that MIG can partition are in ResourceSlices.
func poolsOf(nodes []*cluster.Node) []nodepool.Pool {
	out := nodepool.Single(nodes, nodepool.InCapacity)
	for i, n := range nodes {
		if n.Slices == nil {
			continue
		}
		memory := gigabytes[n.GPUModel]
		d := nodepool.Devices{Product: n.GPUModel, Count: len(n.Slices), Memory: *resource.NewQuantity(int64(memory)<<30, resource.BinarySI)}
		for _, p := range mig.Profiles() {
			d.MIG = append(d.MIG, p.Name(memory))
		}
		delete(out[i].Capacity, kube.GPUResource)
		out[i].Devices = []nodepool.Devices{d}
	}
	return out
}

// claimPartition creates a claim for the partition that an arrival requests, and lets its pod ask by the claim.
func (f *follower) claimPartition(ctx context.Context, p *corev1.Pod, of *cluster.Pod) error {
	model := f.env.Snapshot().Nodes[0].GPUModel
	if len(of.GPUModels) > 0 {
		model = of.GPUModels[0]
	}
	attribute := fmt.Sprintf("device.attributes[%q].", kube.GPUDriver)
	expression := fmt.Sprintf("%sprofile == %q && %sproductName == %q", attribute, of.Partition.Name(gigabytes[model]), attribute, model)
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: p.Name}}
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "mig.nvidia.com", Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}},
	}}}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &p.Name}}
	p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	if _, err := f.client.ResourceV1().ResourceClaims(namespace).Create(ctx, c, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create claim %s: %w", c.Name, err)
	}
	return nil
}

// partition sets on which device of its node the partition of a bound pod lies, and at which memory slice it begins.
func (f *follower) partition(ctx context.Context, out *eval.Choice, p *corev1.Pod, n *cluster.Node) error {
	c, err := f.client.ResourceV1().ResourceClaims(namespace).Get(ctx, p.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read claim %s: %w", p.Name, err)
	}
	if c.Status.Allocation == nil || len(c.Status.Allocation.Devices.Results) != 1 {
		return fmt.Errorf("claim %s has no single device", c.Name)
	}
	of := f.env.Pending().Partition
	device, gpu := c.Status.Allocation.Devices.Results[0].Device, 0
	format := "gpu-%d-mig-" + strings.Replace(of.Name(gigabytes[n.GPUModel]), ".", "", 1) + "-%d"
	if _, err := fmt.Sscanf(device, format, &gpu, &out.Start); err != nil || gpu >= len(n.Slices) || n.Slices[gpu]&of.On(out.Start) != 0 {
		return fmt.Errorf("claim %s has device %s of %s, where the simulator has no room (%w)", c.Name, device, p.Spec.NodeName, err)
	}
	out.Devices = cluster.Device(gpu)
	return nil
}
