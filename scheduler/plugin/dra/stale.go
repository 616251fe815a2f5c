package dra

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// A pod's status may name a claim for extended resources of an earlier attempt to schedule it, which is deleted or belongs to another node.
// If the pod then gets a node that offers the resource itself, and so no claim, the kubelet looks that claim up, and the pod never runs.
// Upstream binds it all the same: see docs/upstream/extended-resource-claim-status.md. LearnedDevices removes the name before the
// pod is bound. The API server of 1.37 lets nobody remove it. There only nodes that give the pod a new claim can have it.

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

// clearStale removes the name of a claim from the status of a pod that gets no claim for its extended resources.
func (p *plugin) clearStale(ctx context.Context, pod *v1.Pod, r *reserved) error {
	for _, c := range r.given {
		if servesExtended(c, pod) {
			return nil // upstream has written its name
		}
	}
	named := pod.Status.ExtendedResourceClaimStatus
	api := p.handle.ClientSet().CoreV1().Pods(pod.Namespace)
	// An attempt may have written it a moment ago, and the cache of pods may be late.
	if named == nil && p.served(pod, func(v1.ResourceName) bool { return true }) {
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
	is, err := api.Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("remove the claim %s, which the pod does not use, from its status: %w", named.ResourceClaimName, err)
	}
	if is.Status.ExtendedResourceClaimStatus != nil {
		p.keepsNames.Store(true)
		return errors.New(stuckReason(named))
	}
	stale.WithLabelValues(p.handle.ProfileName()).Inc()
	klog.FromContext(ctx).Info("The pod's status named a claim of an earlier attempt, which it does not use; the name is removed",
		"pod", klog.KObj(pod), "claim", klog.KRef(pod.Namespace, named.ResourceClaimName))
	return nil
}

// Filter implements fwk.FilterPlugin: upstream's, which also lets pods through that need no claim on the node. Their status must name none
// if the API server keeps it.
func (p *plugin) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	status := p.DynamicResources.Filter(ctx, state, pod, info)
	if !status.IsSuccess() || !p.stuck(pod) {
		return status
	}
	offered := info.GetAllocatable().GetScalarResources()
	if p.served(pod, func(name v1.ResourceName) bool { return offered[name] == 0 }) {
		return nil // upstream allocates a claim
	}
	return stuckStatus(pod)
}

// stuck reports whether a pod's status names a claim that nobody can remove.
func (p *plugin) stuck(pod *v1.Pod) bool {
	return pod.Status.ExtendedResourceClaimStatus != nil && p.keepsNames.Load()
}

// stuckStatus refuses a node, or all nodes, for a stuck pod.
func stuckStatus(pod *v1.Pod) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, stuckReason(pod.Status.ExtendedResourceClaimStatus))
}

func stuckReason(named *v1.PodExtendedResourceClaimStatus) string {
	return fmt.Sprintf("the pod's status names claim %s of an earlier attempt, which the API server lets nobody remove: create the pod again",
		named.ResourceClaimName)
}

// served reports whether the pod requests an extended resource that a DeviceClass serves, one of those for which is returns true.
func (p *plugin) served(pod *v1.Pod, is func(v1.ResourceName) bool) bool {
	resolver := p.manager.DeviceClassResolver()
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for name, q := range list[i].Resources.Requests {
				if !q.IsZero() && schedutil.IsDRAExtendedResourceName(name) && resolver.GetDeviceClass(name) != nil && is(name) {
					return true
				}
			}
		}
	}
	return false
}
