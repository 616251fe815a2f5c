package dra

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// PreBindPreFlight implements fwk.PreBindPlugin: upstream's, which skips pods without claims. A pod whose status names a claim is not
// skipped, see clearStale.
func (p *plugin) PreBindPreFlight(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string,
) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	result, status := p.DynamicResources.PreBindPreFlight(ctx, state, pod, node)
	if status.IsSkip() && pod.Status.ExtendedResourceClaimStatus != nil {
		return result, nil
	}
	return result, status
}

// clearStale removes the name of a claim for extended resources from the status of a pod that gets none on its node. An earlier attempt to
// schedule the pod wrote it, and that claim is deleted or belongs to another node. The kubelet would look it up. Upstream
// leaves it there: see docs/upstream/extended-resource-claim-status.md.
func (p *plugin) clearStale(ctx context.Context, pod *v1.Pod, r *reserved) error {
	for _, c := range r.given {
		if servesExtended(c, pod) {
			return nil // upstream has written its name
		}
	}
	named := pod.Status.ExtendedResourceClaimStatus
	api := p.handle.ClientSet().CoreV1().Pods(pod.Namespace)
	if named == nil && p.servedByClass(pod) { // an attempt may have written it a moment ago, and the cache of pods may be late
		is, err := api.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("look which claim the pod's status names: %w", err)
		}
		named = is.Status.ExtendedResourceClaimStatus
	}
	if named == nil {
		return nil
	}
	patch := fmt.Sprintf(`{"metadata": {"uid": %q}, "status": {"extendedResourceClaimStatus": null}}`, pod.UID)
	if _, err := api.Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("remove the claim %s, which the pod does not use, from its status: %w", named.ResourceClaimName, err)
	}
	stale.WithLabelValues(p.handle.ProfileName()).Inc()
	klog.FromContext(ctx).Info("The pod's status named a claim of an earlier attempt, which it does not use; the name is removed",
		"pod", klog.KObj(pod), "claim", klog.KRef(pod.Namespace, named.ResourceClaimName))
	return nil
}

// servedByClass reports whether the pod requests an extended resource that a DeviceClass serves.
func (p *plugin) servedByClass(pod *v1.Pod) bool {
	resolver := p.manager.DeviceClassResolver()
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for name := range list[i].Resources.Requests {
				if schedutil.IsDRAExtendedResourceName(name) && resolver.GetDeviceClass(name) != nil {
					return true
				}
			}
		}
	}
	return false
}
