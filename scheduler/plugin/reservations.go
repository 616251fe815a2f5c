package plugin

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// reservations are the devices that were given to pods but do not yet show in kube-scheduler's
// snapshot. Without them, two pods that are reserved on one snapshot, such as pods of a group, could
// get the same device. All profiles of a scheduler share the reservations, as they share the snapshot.
type reservations struct {
	snapshot fwk.SharedLister
	log      klog.Logger

	mu    sync.RWMutex // bindings fail while the next pod is scheduled
	byPod map[types.UID]reservation
	pins  map[string]map[types.UID]*pin // by node
	order uint64                        // of the latest pin
	lost  map[string]cluster.DeviceSet  // by node, the devices that are counted as lost
}

// reservation holds the node, the amounts and the devices of one reserved pod.
type reservation struct {
	node       string
	generation int64 // of the node in the snapshot from which the devices were chosen
	pod        kube.RunningPod
}

// pin holds a pod's GPU request and devices as of its reservation, or of its first sight on the node.
// It counts as long as the pod runs, whatever the owner of the pod writes into its annotations later.
type pin struct {
	order    uint64 // earlier pins keep their devices if later ones claim the same
	pod      kube.RunningPod
	conflict bool // whether it is logged that the devices had no room
}

func newReservations(log klog.Logger, snapshot fwk.SharedLister) *reservations {
	return &reservations{snapshot: snapshot, log: log, byPod: map[types.UID]reservation{}, pins: map[string]map[types.UID]*pin{},
		lost: map[string]cluster.DeviceSet{}}
}

// add records what a pod was given.
func (r *reservations) add(pod types.UID, given reservation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byPod[pod] = given
	r.pin(given.node, pod, given.pod)
}

// drop removes a pod's reservation, if there is one.
func (r *reservations) drop(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if given, has := r.byPod[pod]; has {
		delete(r.pins[given.node], pod)
	}
	delete(r.byPod, pod)
}

// pin remembers what a pod has. The caller holds the lock.
func (r *reservations) pin(node string, pod types.UID, has kube.RunningPod) *pin {
	if r.pins[node] == nil {
		r.pins[node] = map[types.UID]*pin{}
	}
	r.order++
	p := &pin{order: r.order, pod: has}
	r.pins[node][pod] = p
	return p
}

// sweep drops the reservations of pods that the snapshot shows, and of pods and nodes that are gone.
func (r *reservations) sweep(nodes fwk.NodeInfoLister) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pod, given := range r.byPod {
		if info, err := nodes.Get(given.node); err != nil || !given.missingFrom(info, pod) {
			delete(r.byPod, pod)
		}
	}
}

// missing returns the pods that hold reservations on a node but do not yet show in its snapshot. It leaves
// out the pod except.
func (r *reservations) missing(info fwk.NodeInfo, except types.UID) (pods []kube.RunningPod) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for pod, given := range r.byPod {
		if pod != except && given.node == info.Node().Name && given.missingFrom(info, pod) {
			pods = append(pods, given.pod)
		}
	}
	return pods
}

// missingFrom reports whether the snapshot's node lacks the pod only because the snapshot is too old.
// kube-scheduler adds a pod to its node before it calls Reserve, which gives the node a new
// generation. So a snapshot with the generation from which the devices were chosen is too old, and a
// later one shows the pod unless the pod is gone.
func (g reservation) missingFrom(info fwk.NodeInfo, pod types.UID) bool {
	return info.GetGeneration() == g.generation &&
		!slices.ContainsFunc(info.GetPods(), func(p fwk.PodInfo) bool { return p.GetPod().UID == pod })
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

// runningPod converts a pod that runs on a node. A pod with a contradictory GPU request was bound by
// another scheduler, or its owner changed it later; the resources that it requests count.
func runningPod(p fwk.PodInfo) kube.RunningPod {
	running, _ := kube.RunningWith(p.GetPod(), amounts(p.CalculateResource().Resource))
	return running
}

// amounts returns figures that kube-scheduler keeps for each node and pod.
func amounts(r fwk.Resource) kube.Amounts {
	scalar := r.GetScalarResources()
	return kube.Amounts{
		MilliCPU: r.GetMilliCPU(), Memory: r.GetMemory(), Pods: int64(r.GetAllowedPodNumber()),
		GPU: scalar[kube.GPUResource], GPUCount: scalar[kube.GPUCountResource], GPUMilli: scalar[kube.GPUMilliResource],
	}
}

// convertPod converts the pod of a scheduling cycle. It ignores a contradictory GPU request, because
// GPUShares rejects the pod.
func convertPod(pod *v1.Pod) cluster.Pod {
	out, _ := kube.Pod(pod)
	return out
}

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
