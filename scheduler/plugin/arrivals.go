package plugin

import (
	"cmp"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/internal/cluster"
	"gnnsched/internal/watched"
)

// arrivals counts the pods of a profile that arrive and wait, by kind. Pods count from their creation on, so those that fit nowhere, which
// are never scored, count too. The pods that run when a scheduler starts are its history.
type arrivals struct {
	profile string
	shown   cluster.Demand // what decisions see

	mu     sync.Mutex
	demand cluster.Demand
	waits  map[types.UID]cluster.Pod // pods without a node
}

// watchArrivals counts the pods of a profile from now on.
func watchArrivals(h fwk.Handle, profile string) (*arrivals, error) {
	a := &arrivals{profile: profile, waits: map[types.UID]cluster.Pod{}}
	_, err := h.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(
		watched.Handler(func(was, is *v1.Pod, _ bool) { a.change(was, is) }))
	return a, err
}

// change records that a pod has come (was is nil), changed, or gone (is is nil).
func (a *arrivals) change(was, is *v1.Pod) {
	pod := cmp.Or(is, was)
	if pod.Spec.SchedulerName != a.profile {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set(pod, was == nil, is != nil && is.Spec.NodeName == "" && is.DeletionTimestamp == nil)
}

// arrives counts a pod that no informer knows. Before the first one those that run on the nodes count.
func (a *arrivals) arrives(pod *v1.Pod, nodes []fwk.NodeInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.demand.Epoch == 0 {
		for _, n := range nodes {
			for _, p := range n.GetPods() {
				a.set(p.GetPod(), true, false)
			}
		}
	}
	a.set(pod, true, true)
}

// set records whether a pod waits. One that is new counts as an arrival, unless it waits already.
func (a *arrivals) set(pod *v1.Pod, isNew, waits bool) {
	plain, waited := a.waits[pod.UID]
	if waited == waits && (waited || !isNew) {
		return
	}
	if !waited {
		plain = convertPod(pod)
	}
	key := cluster.KindKey(&plain)
	if isNew && !waited {
		a.demand.Arrive(key, &plain)
	}
	switch {
	case waits && !waited:
		a.waits[pod.UID] = plain
		a.demand.Wait(key, &plain, 1)
	case waited && !waits:
		delete(a.waits, pod.UID)
		a.demand.Wait(key, &plain, -1)
	}
}

// now returns the demand, which belongs to the decision until the next call; nil if nobody counts.
func (a *arrivals) now() *cluster.Demand {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.demand.CopyTo(&a.shown)
	return &a.shown
}
