package plugin

import (
	"math/bits"
	"slices"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// promises are the claims on a node of pods that preemption nominated for it. They are counted on the
// devices that are free once the evicted pods have ended.
type promises struct {
	nominated []kube.RunningPod
	leaving   []int64 // used thousandths of each device by pods that are being deleted; nil for none
}

// leave notes that a pod on the given devices of n is being deleted.
func (p *promises) leave(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) {
	if p.leaving == nil {
		p.leaving = make([]int64, len(n.GPUs))
	}
	each := r.GPUMilli
	if r.GPU > 0 {
		each = cluster.DeviceMilli
	}
	for rest := on; rest != 0; rest &= rest - 1 {
		p.leaving[bits.TrailingZeros64(uint64(rest))] += each
	}
}

// with returns n with the nominated pods on it. It does not change n.
func (p promises) with(n *cluster.Node) *cluster.Node {
	if len(p.nominated) == 0 {
		return n
	}
	booked, after := clone(n), clone(n)
	for i, milli := range p.leaving {
		after.GPUs[i] -= milli
	}
	slices.SortStableFunc(p.nominated, kube.LargestFirst)
	for _, x := range p.nominated {
		booked.AddOn(x.Requests, after.Add(x.Requests))
	}
	return booked
}

// nominated returns what pods request that are nominated for a node and come before the pod: those of
// at least its priority, as upstream's filters count them.
func (g *gpuShares) nominated(pod *v1.Pod, node string) (out []kube.RunningPod) {
	for _, p := range g.handle.NominatedPodsForNode(node) {
		if p.GetPod().UID == pod.UID || corev1helpers.PodPriority(p.GetPod()) < corev1helpers.PodPriority(pod) {
			continue
		}
		if r := runningPod(p); r.Requests.TotalGPUMilli() > 0 {
			out = append(out, r)
		}
	}
	return out
}

// with returns n with more pods on it. It does not change n.
func with(n *cluster.Node, pods []kube.RunningPod) *cluster.Node {
	if len(pods) == 0 {
		return n
	}
	more := clone(n)
	kube.Place(more, pods)
	return more
}

func clone(n *cluster.Node) *cluster.Node {
	c := *n
	c.Groups, c.GPUs = slices.Clone(n.Groups), slices.Clone(n.GPUs)
	return &c
}

// closeLost returns n with its lost devices counted as full. It does not change n. A device that was
// counted as lost stays so while it is idle and the node misses a device.
func (r *reservations) closeLost(n *cluster.Node) *cluster.Node {
	if int64(len(n.GPUs)) <= n.Allocatable.GPU {
		return n
	}
	closed := clone(n)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost[n.Name] = kube.CloseLost(closed, r.lost[n.Name])
	return closed
}
