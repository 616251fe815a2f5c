package dra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// settle finds out whether another scheduler gave the pod's devices away at the same time, which the API server does not prevent: it knows
// one claim at a time. The one that was second gives its devices back, and its pod tries again. Claims that other pods use, too, are left
// as they are.
func (p *plugin) settle(ctx context.Context, pod *v1.Pod, r *reserved) *fwk.Status {
	if len(r.claims) == 0 {
		return nil
	}
	all, err := p.manager.SharedDRAManager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return fwk.AsStatus(err)
	}
	within, cancel := context.WithTimeout(ctx, seeWithin)
	defer cancel()
	o, lost := &p.manager.ledger.order, ""
	var own []*resourceapi.ResourceClaim
	for _, c := range r.claims {
		is := p.cached(pod, c)
		if is == nil || is.Status.Allocation == nil || !usedBy(is, pod) || !p.see(within, is) {
			continue
		}
		own = append(own, is)
		// Nobody looked whether a claim that was allocated before this cycle was first: its scheduler may have been killed.
		if device := o.overdrawn(is.UID, all, !r.gave(c)); device != "" && lost == "" {
			lost = device
		}
	}
	if lost == "" {
		return nil
	}
	conflicts.WithLabelValues(p.handle.ProfileName()).Inc()
	for _, c := range own {
		if err := p.giveBack(ctx, pod, c); err != nil {
			klog.FromContext(ctx).Error(err, "Devices that another scheduler gave away, too, cannot be given back yet", "pod", klog.KObj(pod),
				"claim", klog.KObj(c))
		}
	}
	return fwk.AsStatus(fmt.Errorf("another scheduler gave device %s away, too", lost))
}

// seeWithin is how long settle waits for the watch of the claims, on which all other claims come, too. It holds for all claims of a pod
// together.
const seeWithin = 10 * time.Second

// see waits until the order has the claim. If it has not when ctx is done, the claim goes unchecked, as it would upstream.
func (p *plugin) see(ctx context.Context, c *resourceapi.ResourceClaim) bool {
	o := &p.manager.ledger.order
	if o.claims == nil { // nothing is followed
		return false
	}
	seen := o.seen(c)
	select {
	case <-seen:
		return true
	case <-ctx.Done():
	}
	o.forget(c.UID)
	select {
	case <-seen: // that of an earlier claim took all the time
		return true
	default:
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		klog.FromContext(ctx).Info("The watch of the claims is late: whether another scheduler gave the same devices away is not known",
			"claim", klog.KObj(c))
	}
	return false
}

// cached returns a reserved claim as the cache has it; nil if it has none. That of extended resources had no name when it was reserved.
func (p *plugin) cached(pod *v1.Pod, c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	tracker := p.manager.ResourceClaims()
	if c.ResourceVersion != "" {
		if is, err := tracker.Get(c.Namespace, c.Name); err == nil && is.UID == c.UID {
			return is
		}
		return nil
	}
	all, err := tracker.List()
	if i := slices.IndexFunc(all, func(is *resourceapi.ResourceClaim) bool { return servesExtended(is, pod) }); err == nil && i >= 0 {
		return all[i]
	}
	return nil
}

// servesExtended reports whether a claim was made for the extended resources of a pod.
func servesExtended(c *resourceapi.ResourceClaim, pod *v1.Pod) bool {
	o := metav1.GetControllerOf(c)
	return o != nil && o.UID == pod.UID && c.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true"
}

// usedBy reports whether a claim is reserved for the pod, and for nothing else.
func usedBy(c *resourceapi.ResourceClaim, pod *v1.Pod) bool {
	return len(c.Status.ReservedFor) == 1 && c.Status.ReservedFor[0].UID == pod.UID
}

// giveBack takes the devices from a claim that is reserved for the pod alone. Upstream's Unreserve deletes one for extended resources.
func (p *plugin) giveBack(ctx context.Context, pod *v1.Pod, c *resourceapi.ResourceClaim) error {
	if servesExtended(c, pod) {
		return nil
	}
	api := p.handle.ClientSet().ResourceV1().ResourceClaims(c.Namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		is, err := api.Get(ctx, c.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && (is.UID != c.UID || !usedBy(is, pod)) {
			return nil
		}
		if err != nil {
			return err
		}
		is.Status.Allocation, is.Status.ReservedFor, is.Status.Devices = nil, nil, nil
		_, err = api.UpdateStatus(ctx, is, metav1.UpdateOptions{})
		return err
	})
}

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
