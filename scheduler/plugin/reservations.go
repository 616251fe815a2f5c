package plugin

import (
	"context"
	"slices"
	"sync"

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

// allReservations holds the *reservations of each snapshot in this process.
var allReservations sync.Map

// reservationsOf returns the reservations that belong to a scheduler's snapshot, until ctx is done.
func reservationsOf(ctx context.Context, snapshot fwk.SharedLister) *reservations {
	r, known := allReservations.LoadOrStore(snapshot, newReservations(logger(ctx), snapshot))
	if !known {
		context.AfterFunc(ctx, func() { allReservations.Delete(snapshot) })
	}
	return r.(*reservations)
}

func newReservations(log klog.Logger, snapshot fwk.SharedLister) *reservations {
	return &reservations{snapshot: snapshot, log: log, byPod: map[types.UID]reservation{}, pins: map[string]map[types.UID]*pin{}, lost: map[string]cluster.DeviceSet{}}
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
