package live

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// claimPrefix distinguishes names of claims from names of pods.
const claimPrefix = "claim "

// claimRecord is one claim. Its name as a holder has claimPrefix.
type claimRecord struct {
	holder          // without an allocation, it has no node
	pods   []string // for which it is reserved
}

// seeClaim counts a state of a claim. revision is etcd's.
func (b *book) seeClaim(revision int64, c *resourceapi.ResourceClaim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.claims[c.Name]
	if was == nil {
		was = &claimRecord{holder: holder{name: claimPrefix + c.Name}}
		b.claims[c.Name] = was
	}
	was.pods = was.pods[:0]
	for _, r := range c.Status.ReservedFor {
		was.pods = append(was.pods, r.Name)
	}
	if c.Status.Allocation == nil {
		b.freed(revision, c.Name, was)
		was.node, was.devices, was.milli = "", 0, 0
		return
	}
	v := violation{kind: noDevice, names: []string{was.name}}
	now, err := kube.ReadClaimed(c)
	held := kube.Claimed{Pool: was.node, Devices: was.devices, Milli: was.milli}
	switch {
	case err != nil:
		v.detail = err.Error()
		b.report(v)
		return
	case now == held:
		return
	case was.node != "":
		b.report(violation{kind: deviceTwice, names: v.names, detail: fmt.Sprintf("its allocation changed from %+v to %+v", held, now)})
	default:
		b.totals.allocated++
	}
	was.node, was.devices, was.milli, was.placed = now.Pool, now.Devices, now.Milli, b.now()
	was.rival = slices.ContainsFunc(was.pods, func(pod string) bool { return b.rivals[pod] })
	if v.detail = b.wrong(c, now); v.detail != "" {
		b.report(v)
	}
	b.checkUse(&was.holder, nil)
}

// wrong describes how an allocation falls short of its claim's request; empty if it does not.
func (b *book) wrong(c *resourceapi.ResourceClaim, held kube.Claimed) string {
	devices, milli := int64(0), int64(cluster.DeviceMilli)
	for _, r := range c.Spec.Devices.Requests {
		if r.Exactly == nil {
			return "it has alternatives, which no pod of the soak asks for"
		}
		devices += r.Exactly.Count
		if r.Exactly.Capacity != nil {
			q := r.Exactly.Capacity.Requests[kube.GPUSharesCapacity]
			milli = q.Value()
		}
	}
	if has := b.capacity[held.Pool].slices; int64(held.Devices.Len()) != devices || held.Milli != milli || held.Devices>>has != 0 {
		return fmt.Sprintf("it has devices %q of %d on %s, %d thousandths of each, and asks for %d and %d thousandths",
			kube.FormatDevices(held.Devices), has, held.Pool, held.Milli, devices, milli)
	}
	return ""
}

// goneClaim counts that a claim left etcd.
func (b *book) goneClaim(revision int64, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.claims[name]; c != nil {
		b.freed(revision, name, c)
		delete(b.claims, name)
		c.left, c.collided = b.now(), nil
	}
}

// freed reports the pods that run with the devices of a claim which has lost them.
func (b *book) freed(revision int64, name string, c *claimRecord) {
	for _, r := range b.pods {
		if r.node == c.node && !r.ended && slices.Contains(r.claims, name) {
			r.note(revision, "claim %s has no devices any more", name)
			b.report(r.violation(noDevice, "claim %s lost its devices while it ran", name))
		}
	}
}

// checkClaims checks that all claims of a pod which was bound are allocated to it on its node.
func (b *book) checkClaims(r *record, p *corev1.Pod) {
	r.claims = kube.ClaimNames(p)
	want := len(p.Spec.ResourceClaims)
	if p.Status.ExtendedResourceClaimStatus != nil {
		want++
	}
	if r.forgotten { // by Kubernetes 1.36.3: kubernetes#138407
		b.totals.forgotten++
		r.claims = r.claims[:0]
		for _, name := range slices.Sorted(maps.Keys(b.claims)) {
			if slices.Contains(b.claims[name].pods, r.name) {
				r.claims = append(r.claims, name)
			}
		}
	}
	if len(r.claims) != want {
		b.report(r.violation(noDevice, "it asks by %d claims and has %v", want, r.claims))
	}
	for _, name := range r.claims {
		c := b.claims[name]
		switch {
		case c == nil:
			b.report(r.violation(claimElse, "claim %s does not exist", name))
		case c.node != r.node || !slices.Contains(c.pods, r.name):
			b.report(r.violation(claimElse, "claim %s is allocated on %q, for %v, and the pod is on %s", name, c.node, c.pods, r.node))
		default:
			r.note(0, "claim %s: devices %q, %d thousandths", name, kube.FormatDevices(c.devices), c.milli)
		}
	}
}
