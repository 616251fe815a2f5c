package soak

import (
	"context"
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// claimed returns a pod's requests without its GPUs, and a decoration that asks for them by a claim.
func claimed(r cluster.Resources) (cluster.Resources, decoration) {
	template := templateOf(r)
	r.GPU, r.GPUMilli = 0, 0
	return r, func(p *corev1.Pod) { claim(p, template) }
}

// claimedInTwo asks for a device and for a share, by two claims.
func claimedInTwo(r *rand.Rand) (cluster.Resources, decoration) {
	out := cpu(r, 500, 2000)
	part := templateOf(share(r))
	return out, func(p *corev1.Pod) {
		claim(p, templateOf(cluster.Resources{GPU: 1}))
		claim(p, part)
	}
}

// extended asks for a device as kube.GPUResource, which nodes offer or a DeviceClass serves.
func extended(r *rand.Rand) (cluster.Resources, decoration) {
	out := cpu(r, 500, 2000)
	return out, func(p *corev1.Pod) {
		main := &p.Spec.Containers[0].Resources
		main.Limits = kube.GPUResourceList(cluster.Resources{GPU: 1})
		main.Requests[kube.GPUResource] = main.Limits[kube.GPUResource]
	}
}

// claim adds a claim to a pod.
func claim(p *corev1.Pod, template string) {
	name := fmt.Sprint("gpu-", len(p.Spec.ResourceClaims))
	p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: &template})
	main := &p.Spec.Containers[0].Resources
	main.Claims = append(main.Claims, corev1.ResourceClaim{Name: name})
}

// templateOf names the template of claims for the GPUs of r.
func templateOf(r cluster.Resources) string {
	if r.GPU > 0 {
		return fmt.Sprint("whole-", r.GPU)
	}
	return fmt.Sprint("share-", r.GPUMilli)
}

// templates are all that pods may name.
func templates() (out []*resourceapi.ResourceClaimTemplate) {
	add := func(r cluster.Resources) {
		t := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: templateOf(r), Namespace: namespace}}
		t.Spec.Spec = kube.Claim(r, nil)
		out = append(out, t)
	}
	for milli := leastShare; milli <= mostShare; milli++ {
		add(cluster.Resources{GPUMilli: shareStep * milli})
	}
	for i := range wholeSizes {
		add(cluster.Resources{GPU: 1 << i})
	}
	return out
}

// createTemplates creates the templates.
func (s *soak) createTemplates(ctx context.Context) error {
	for _, t := range templates() {
		_, err := s.client.ResourceV1().ResourceClaimTemplates(namespace).Create(ctx, t, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create the template of claims %s: %w", t.Name, err)
		}
	}
	return nil
}

// slicesOf returns the slices of a node.
func (s *soak) slicesOf(ctx context.Context, node string) ([]resourceapi.ResourceSlice, error) {
	list, err := s.client.ResourceV1().ResourceSlices().List(ctx,
		metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorNodeName + "=" + node})
	if err != nil {
		return nil, fmt.Errorf("list the resource slices of %s: %w", node, err)
	}
	return list.Items, nil
}

// restoreSlices publishes the slices of a node that is back, as its driver would. Garbage collection removes the old ones with the old
// node.
func (s *soak) restoreSlices(ctx context.Context, node *corev1.Node, was []resourceapi.ResourceSlice) {
	api := s.client.ResourceV1().ResourceSlices()
	for i := range was {
		n := &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: was[i].Name, GenerateName: was[i].GenerateName, Labels: was[i].Labels}, Spec: was[i].Spec,
		}
		n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
		for ctx.Err() == nil {
			if _, err := api.Create(ctx, n, metav1.CreateOptions{}); err == nil {
				break
			}
			old, err := api.Get(ctx, n.Name, metav1.GetOptions{})
			if err == nil && len(old.OwnerReferences) == 1 && old.OwnerReferences[0].UID == node.UID {
				break // kwokcluster was started again and did it
			}
			pause(ctx, pollEvery)
		}
	}
}
