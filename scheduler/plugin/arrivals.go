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
	if was == nil {
		plain := convertPod(pod)
		a.demand.Arrive(cluster.KindKey(&plain), &plain)
	}
	before, waited := a.waits[pod.UID]
	waits := is != nil && is.Spec.NodeName == "" && is.DeletionTimestamp == nil
	switch {
	case waits && !waited:
		plain := convertPod(pod)
		a.waits[pod.UID] = plain
		a.demand.Wait(cluster.KindKey(&plain), &plain, 1)
	case waited && !waits:
		delete(a.waits, pod.UID)
		a.demand.Wait(cluster.KindKey(&before), &before, -1)
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
