package dra

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"gnnsched/internal/cluster"
)

// Placer adds the pods with claims on one node to a cluster.Node.
type Placer struct {
	*Node
	view   *View
	only   bool    // the node's GPUs are in slices only
	placed []int64 // thousandths of each card that the pods hold
}

// Placer gives n, which has no pods yet, the cards that it lacks, and returns a placer for its pods. It returns nil if
// the node has no devices of slices.
func (v *View) Placer(n *cluster.Node) *Placer {
	d := v.Node(n.Name)
	if d == nil {
		return nil
	}
	p := &Placer{Node: d, view: v, only: n.Allocatable.GPU == 0, placed: make([]int64, len(d.used))}
	if more := len(d.used) - len(n.GPUs); more > 0 {
		n.Allocatable.GPU += int64(more)
		n.GPUs = append(n.GPUs[:len(n.GPUs):len(n.GPUs)], make([]int64, more)...)
	}
	n.GPUModel = cmp.Or(n.GPUModel, d.shape.Product)
	n.Slices = d.slices
	return p
}

// Has reports whether claims serve a pod's GPUs on the node, so that Place must add it. p may be nil.
func (p *Placer) Has(pod *v1.Pod) bool {
	return p != nil && (p.only || len(pod.Spec.ResourceClaims) > 0)
}

// Place adds a running pod that requests r to n, with its claims' cards in place of r's GPUs. Rest must follow
// after the last pod. Of pods that share a claim, the first counts its cards.
func (p *Placer) Place(n *cluster.Node, pod *v1.Pod, r cluster.Resources) {
	r.GPU, r.GPUMilli = 0, 0
	milli := make([]int64, len(p.used))
	for _, c := range p.view.ledger.claims(pod) {
		if c.Status.Allocation != nil {
			p.shape.Count(milli, c.Status.Allocation.Devices.Results)
		}
	}
	var whole, shared cluster.DeviceSet
	for i, m := range milli {
		switch {
		case m == 0 || p.placed[i]+m > p.used[i]: // nothing, or the claim is counted already
		case m >= cluster.DeviceMilli:
			whole |= cluster.Device(i)
		case shared == 0:
			shared = cluster.Device(i)
			r.GPUMilli = m
		}
	}
	on := shared
	if whole != 0 { // cluster.Resources has no both; Rest counts the share
		r.GPU, r.GPUMilli, on = int64(whole.Len()), 0, whole
	}
	for i := range milli {
		if on.Has(i) {
			p.placed[i] += milli[i]
		}
	}
	n.AddOn(r, on)
}

// Requests returns what a running pod requests, given what it requests without its claims. v may be nil.
func (v *View) Requests(pod *v1.Pod, r cluster.Resources) cluster.Resources {
	n := v.Node(pod.Spec.NodeName)
	if n == nil || len(pod.Spec.ResourceClaims) == 0 {
		return r
	}
	var t takes
	for _, c := range v.ledger.claims(pod) {
		if c.Status.Allocation == nil {
			continue
		}
		milli := make([]int64, len(n.used))
		n.shape.Count(milli, c.Status.Allocation.Devices.Results)
		for _, m := range milli {
			t.add(1, m)
		}
	}
	t.set(&r)
	return r
}

// cardsOf returns the cards of allocated claims on the node.
func (n *Node) cardsOf(given []*resourceapi.ResourceClaim) (on cluster.DeviceSet) {
	milli := make([]int64, len(n.used))
	for _, c := range given {
		n.shape.Count(milli, c.Status.Allocation.Devices.Results)
	}
	for i, m := range milli {
		if m > 0 {
			on |= cluster.Device(i)
		}
	}
	return on
}

// Rest counts what claims use and no placed pod does: claims that no pod holds yet or any more. p may be nil.
func (p *Placer) Rest(n *cluster.Node) {
	if p == nil {
		return
	}
	for i, used := range p.used {
		if more := used - p.placed[i]; more > 0 && i < len(n.GPUs) {
			n.GPUs[i] += more
		}
	}
}

// claims returns the claims of a pod that exist, as the manager knows them: with allocations that are in flight.
func (l *Ledger) claims(pod *v1.Pod) (out []*resourceapi.ResourceClaim) {
	tracker := l.manager.ResourceClaims()
	get := func(name string, owned bool) {
		c, err := tracker.Get(pod.Namespace, name)
		if err != nil || owned && resourceclaim.IsForPod(pod, c, false) != nil {
			return
		}
		if c.Status.Allocation == nil {
			if a := tracker.GetPendingAllocation(c.UID); a != nil {
				c = &resourceapi.ResourceClaim{ObjectMeta: c.ObjectMeta, Spec: c.Spec, Status: resourceapi.ResourceClaimStatus{Allocation: a}}
			}
		}
		out = append(out, c)
	}
	for i := range pod.Spec.ResourceClaims {
		if name, owned, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			get(*name, owned)
		}
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		get(s.ResourceClaimName, true)
	}
	return out
}
