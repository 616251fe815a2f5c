package soak

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// claimPrefix distinguishes names of claims from names of pods.
const claimPrefix = "claim "

// claimRecord is one claim.
type claimRecord struct {
	held kube.Claimed // zero without an allocation
	at   time.Time    // of the allocation
	pods []string     // for which it is reserved
	by   []string     // the pods for which it was allocated, which may have gone
}

// seeClaim counts a state of a claim. revision is etcd's.
func (b *book) seeClaim(revision int64, c *resourceapi.ResourceClaim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, known := b.claims[c.Name]
	if !known {
		was = &claimRecord{}
		b.claims[c.Name] = was
	}
	was.pods = was.pods[:0]
	for _, r := range c.Status.ReservedFor {
		was.pods = append(was.pods, r.Name)
	}
	if c.Status.Allocation == nil {
		b.freed(revision, c.Name, was)
		was.held = kube.Claimed{}
		return
	}
	now, err := kube.ReadClaimed(c)
	v := violation{kind: noDevice, pods: []string{claimPrefix + c.Name}}
	switch {
	case err != nil:
		v.detail = err.Error()
		b.report(v)
		return
	case now == was.held:
		return
	case was.held != kube.Claimed{}:
		b.report(violation{kind: deviceTwice, pods: v.pods, detail: fmt.Sprintf("its allocation changed from %+v to %+v", was.held, now)})
	default:
		b.totals.allocated++
	}
	was.held, was.at, was.by = now, b.now(), slices.Clone(was.pods)
	if v.detail = b.wrong(c, now); v.detail != "" {
		b.report(v)
	}
	b.checkUse(now.Pool, now.Devices, violation{kind: deviceTwice, pods: v.pods})
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

// leftClaim counts that a claim left etcd.
func (b *book) leftClaim(revision int64, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.claims[name]; c != nil {
		b.freed(revision, name, c)
		delete(b.claims, name)
		b.part(claimPrefix + name)
	}
}

// freed reports the pods that run with the devices of a claim which has lost them.
func (b *book) freed(revision int64, name string, c *claimRecord) {
	for _, r := range b.on[c.held.Pool] {
		if slices.Contains(r.claims, name) {
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
		r.claims = b.reservedFor(r.name)
	}
	if len(r.claims) != want {
		b.report(r.violation(noDevice, "it asks by %d claims and has %v", want, r.claims))
	}
	for _, name := range r.claims {
		c := b.claims[name]
		switch {
		case c == nil:
			b.report(r.violation(claimElse, "claim %s does not exist", name))
		case c.held.Pool != r.node || !slices.Contains(c.pods, r.name):
			b.report(r.violation(claimElse, "claim %s is allocated on %q, for %v, and the pod is on %s", name, c.held.Pool, c.pods, r.node))
		default:
			r.note(0, "claim %s: devices %q, %d thousandths", name, kube.FormatDevices(c.held.Devices), c.held.Milli)
		}
	}
}

// reservedFor returns the names of the claims reserved for a pod, in order.
func (b *book) reservedFor(pod string) (names []string) {
	for name, c := range b.claims {
		if slices.Contains(c.pods, pod) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// claimNames returns the claims that exist, in order.
func (b *book) claimNames() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.claims))
}

// meanwhile is the time for which a scheduler may not know another one's placements: its watch is late, or starts again.
const meanwhile = 10 * time.Second

// tooMuch reports that pods and claims together take too much. The last one is v.pods[0]. It only counts a collision if the rival placed
// the last one and the others' leader another one, or the other way round: neither could know of the other. GPUShares counts one of the
// pods that collided over a device on other devices. So pods that come to the device while both are there belong to the collision.
func (b *book) tooMuch(v violation) {
	byRival, at := b.placement(v.pods[0])
	for _, name := range v.pods[1:] {
		other, when := b.placement(name)
		before := at.Sub(when).Abs()
		switch {
		case other != byRival && before < meanwhile, v.kind == deviceTwice && b.there(b.collided[name]):
			if key := "collision " + v.kind + v.pods[0]; !b.known[key] {
				b.known[key] = true
				b.totals.collisions[v.kind]++
			}
			if other != byRival {
				b.collided[v.pods[0]], b.collided[name] = name, v.pods[0]
			}
			return
		case other != byRival:
			v.detail += fmt.Sprintf("; the other scheduler placed %s %v before", name, before.Round(time.Second))
		}
	}
	b.report(v)
}

// part notes that a pod or a claim has left.
func (b *book) part(name string) {
	if b.collided[name] != "" {
		b.parted[name] = b.now()
	}
	delete(b.collided, name)
}

// there reports whether a pod or a claim that has collided exists, as far as a scheduler may know.
func (b *book) there(name string) bool {
	claim, is := strings.CutPrefix(name, claimPrefix)
	return is && b.claims[claim] != nil || b.live[name] != nil || b.now().Sub(b.parted[name]) < meanwhile
}

// placement tells whether the rival placed a pod or a claim, and when.
func (b *book) placement(name string) (byRival bool, at time.Time) {
	if claim, is := strings.CutPrefix(name, claimPrefix); is {
		c := b.claims[claim]
		return slices.ContainsFunc(c.by, func(pod string) bool { return b.rivals[pod] }), c.at
	}
	return b.rivals[name], b.live[name].placed
}

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
