package plugin

import (
	"cmp"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// occupant is a pod on a node that is being converted.
type occupant struct {
	pod *v1.Pod
	kube.RunningPod
	pin *pin // nil for a pod without GPUs or one that is only nominated
}

// place adds to n the pods of info that wanted selects: those with GPUs on the devices on which they
// are pinned. It pins pods that it sees for the first time. It does not place pods that are only
// nominated for the node, but returns what they request.
func (r *reservations) place(n *cluster.Node, info fwk.NodeInfo, wanted func(*v1.Pod, kube.RunningPod) bool) (p promises) {
	shown, err := r.snapshot.NodeInfos().Get(n.Name)
	real := err == nil && shown == info // otherwise a copy, on which kube-scheduler tries something
	pods := r.occupants(info, real, wanted)
	running := make([]kube.RunningPod, 0, len(pods))
	for _, o := range pods {
		if o.pod.Spec.NodeName == "" {
			p.nominated = append(p.nominated, o.RunningPod)
		} else {
			running = append(running, o.RunningPod)
		}
	}
	pods = slices.DeleteFunc(pods, func(o occupant) bool { return o.pod.Spec.NodeName == "" })
	on := kube.PlaceInOrder(n, running)
	if real && n.HasDevices() {
		r.report(n, pods, on)
	}
	for i, o := range pods {
		if o.pod.DeletionTimestamp != nil && on[i] != 0 {
			p.leave(n, o.Requests, on[i])
		}
	}
	return p
}

// occupants returns the wanted pods of a node in the order in which they are to be placed.
func (r *reservations) occupants(info fwk.NodeInfo, real bool, wanted func(*v1.Pod, kube.RunningPod) bool) []occupant {
	node, all := info.Node().Name, info.GetPods()
	pods, gpus := make([]occupant, 0, len(all)), false
	for _, p := range all {
		o := occupant{pod: p.GetPod(), RunningPod: runningPod(p)}
		pods, gpus = append(pods, o), gpus || o.Requests.TotalGPUMilli() > 0
	}
	if gpus {
		slices.SortStableFunc(pods, func(a, b occupant) int { return kube.LargestFirst(a.RunningPod, b.RunningPod) })
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if real {
		r.unpin(node, pods)
	}
	if !gpus && len(r.pins[node]) == 0 { // most nodes of most clusters
		return slices.DeleteFunc(pods, func(o occupant) bool { return !wanted(o.pod, o.RunningPod) })
	}
	for i := range pods {
		o := &pods[i]
		if o.pin = r.pins[node][o.pod.UID]; o.pin == nil && o.Requests.TotalGPUMilli() > 0 {
			if o.pod.Spec.NodeName == "" { // nominated: nothing is given to it yet
				o.Devices = 0
				continue
			}
			o.pin = r.pin(node, o.pod.UID, o.RunningPod)
		}
		if o.pin != nil {
			o.Requests.GPU, o.Requests.GPUMilli = o.pin.pod.Requests.GPU, o.pin.pod.Requests.GPUMilli
			o.Devices = o.pin.pod.Devices
		}
	}
	slices.SortStableFunc(pods, func(a, b occupant) int { return cmp.Compare(a.turn(), b.turn()) })
	return slices.DeleteFunc(pods, func(o occupant) bool { return !wanted(o.pod, o.RunningPod) })
}

// turn is the pod's place in the order of placing. Pods without a pin come last: they have no GPUs or
// no devices yet.
func (o occupant) turn() uint64 {
	if o.pin == nil {
		return math.MaxUint64
	}
	return o.pin.order
}

// unpin forgets the pins of pods that have left the node, and from time to time those of nodes that
// are gone. The caller holds the lock.
func (r *reservations) unpin(node string, present []occupant) {
	if pins := r.pins[node]; len(pins) > 0 {
		here := make(map[types.UID]bool, len(present))
		for _, o := range present {
			here[o.pod.UID] = true
		}
		for uid := range pins {
			if _, reserved := r.byPod[uid]; !here[uid] && !reserved {
				delete(pins, uid)
			}
		}
	}
	if nodes, err := r.snapshot.NodeInfos().List(); err == nil && len(r.pins) > 2*len(nodes)+100 {
		for name := range r.pins {
			if _, err := r.snapshot.NodeInfos().Get(name); err != nil {
				delete(r.pins, name)
				delete(r.lost, name)
			}
		}
	}
}

// report logs and counts the pods on n that are on devices without room for them, each pod once. on
// holds the devices on which each pod is counted.
func (r *reservations) report(n *cluster.Node, pods []occupant, on []cluster.DeviceSet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, o := range pods {
		if o.pin == nil || o.pin.conflict || !conflicts(n, o.RunningPod, on[i]) {
			continue
		}
		o.pin.conflict = true
		deviceConflicts.Inc()
		r.log.Error(nil, "A pod is bound to GPU devices that were given to other pods: is another scheduler binding pods to this node?",
			"pod", klog.KObj(o.pod), "scheduler", o.pod.Spec.SchedulerName, "node", n.Name, "devices", kube.FormatDevices(o.Devices))
	}
}

// conflicts reports whether a pod had no room on n: it is not counted on the devices that it claims
// although they exist, or it claims none and those on which it is counted have no room.
func conflicts(n *cluster.Node, p kube.RunningPod, on cluster.DeviceSet) bool {
	count := max(p.Requests.GPU, min(p.Requests.GPUMilli, 1))
	switch claimed := p.Devices; {
	case claimed == on && on != 0:
		return false
	case int64(claimed.Len()) == count && claimed>>len(n.GPUs) == 0, int64(on.Len()) < count:
		return true
	}
	for i, used := range n.GPUs {
		if on.Has(i) && used > cluster.DeviceMilli {
			return true
		}
	}
	return false
}
