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
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
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
